"""Recognise a checkpoint by a model it may be a copy of: undo a renaming tensor by tensor.

Where names are hashed, values alone say what a matrix does but hardly whose layer it is from (``bag``). With a
reference at hand every stored tensor can be matched with the reference's tensor of the same shape by where in the
residual stream it reads or writes. That is kept by permuted units and heads, by scaled units, and, once the basis is
found from the embeddings, by a rotation of the stream; a stranger matches nothing in particular.

Nothing is accused here: a matching only says where to look, and the comparison judges what it finds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from scipy.optimize import linear_sum_assignment

from fingerprint.checkpoint.interface import Checkpoint, TensorInfo

from . import values
from .cutting import oriented
from .interface import Layout, Role, Slot, View
from .lines import line_profiles

PROBES = 128
"""Random directions of the residual stream along which matrices are compared."""

BASIS_ROWS = 4
"""Rows of the embedding used to find a rotation, for every dimension of the stream."""

SAME_BASIS = 0.5
"""Mean row cosine of two embeddings from which no rotation is looked for (unrelated: 0)."""

GAIN_WEIGHT = 2.0
"""Gains pair with gains before anything else is asked: folded ones are constant and have no profile."""

Key = tuple[int | str, ...]
"""What tensors must share to be matched: a shape, or a word for a wider class."""

TABLE: Key = ("table",)
"""Bucket of embedding and head: they may have been padded, so that only their width is compared."""

GAIN_OF = {
    Role.QUERY: Role.NORM_ATTENTION,
    Role.KEY: Role.NORM_ATTENTION,
    Role.VALUE: Role.NORM_ATTENTION,
    Role.GATE: Role.NORM_MLP,
    Role.UP: Role.NORM_MLP,
    Role.ROUTER: Role.NORM_MLP,
    Role.HEAD: Role.FINAL_NORM,
}
"""Gain that a reader has folded into it when norms are folded."""


@dataclass(frozen=True)
class Basis:
    """Probes in the reference's stream, the same in the candidate's (d x PROBES), and the candidate's embedding."""

    reference: torch.Tensor
    candidate: torch.Tensor
    embed: str


def recognise_like(
    candidate: Checkpoint, reference: Checkpoint, layout: Layout, *, tokens: Sequence[int] | None = None
) -> Layout | None:
    """The candidate's layout, by matching its stored tensors with the reference's.

    Args:
        candidate: Checkpoint whose names say nothing.
        reference: Checkpoint it is compared with.
        layout: The reference's layout.
        tokens: For each of the candidate's vocabulary rows, the reference's row; None where they are the same.

    Returns:
        ``layout`` with the candidate's tensors in place of the reference's; what has no partner is OTHER, and
        ``source`` is ``reference``. None where the two have no embedding in common to start from.
    """
    basis = _basis(candidate, reference, layout, tokens)
    if basis is None:
        return None
    pairs = _pairs(candidate, reference, layout, basis)
    return _renamed(candidate, layout, pairs)


def _renamed(candidate: Checkpoint, layout: Layout, pairs: Mapping[str, str]) -> Layout:
    """The reference's slots over the candidate's tensors."""
    slots: dict[Slot, View] = {}
    for slot, view in layout.slots.items():
        name = pairs.get(view.tensor)
        if name is None:
            continue
        info = candidate.tensors[name]
        if view.index is None and view.rows is None and view.order is None:
            slots[slot] = View(name, oriented(info.shape, view.transpose), transpose=view.transpose)
        else:
            slots[slot] = replace(view, tensor=name)
    used = {view.tensor for view in slots.values()}
    heads = [n for n, i in candidate.tensors.items() if n not in used and _is_head(i, slots, layout)]
    if len(heads) == 1:
        slots[Slot(Role.HEAD)] = View(heads[0], candidate.tensors[heads[0]].shape)
        used.add(heads[0])
    slots |= {
        Slot(Role.OTHER, name=name): View(name, info.shape)
        for name, info in candidate.tensors.items()
        if name not in used
    }
    vocab = next((v.shape[0] for s, v in slots.items() if s.role is Role.EMBED), layout.dims.vocab)
    units = next((v.shape[1] for s, v in slots.items() if s.role is Role.DOWN), layout.dims.intermediate)
    tied = Slot(Role.HEAD) not in slots and Slot(Role.EMBED) in slots and layout.tied
    return replace(
        layout,
        slots=slots,
        dims=replace(layout.dims, vocab=vocab, intermediate=units),
        tied=tied,
        source="reference",
        ambiguous=(),
        notes=("roles by matching with the reference",),
    )


def _is_head(info: TensorInfo, slots: Mapping[Slot, View], layout: Layout) -> bool:
    """Whether a tensor without a partner is the head of a model whose reference has it tied."""
    embed = slots.get(Slot(Role.EMBED))
    return embed is not None and layout.tied and Slot(Role.HEAD) not in slots and info.shape == embed.shape


def _basis(candidate: Checkpoint, reference: Checkpoint, layout: Layout, tokens: Sequence[int] | None) -> Basis | None:
    """Probes in both streams: the same where embeddings agree as they are, else turned by Procrustes."""
    view = layout.slots.get(Slot(Role.EMBED))
    hidden = layout.dims.hidden
    if view is None or not hidden or view.transpose:
        return None
    rows = values.first_rows(reference, view, min(view.shape[0], BASIS_ROWS * hidden))
    found: list[tuple[float, torch.Tensor, str]] = []
    for info in candidate.tensors.values():
        if (
            len(info.shape) == 2
            and info.shape[1] == hidden
            and info.dtype.is_floating_point
            and info.shape[0] >= hidden
        ):
            found += _turn(candidate, info, rows, tokens)
    if not found:
        return None
    _, turn, embed = max(found, key=lambda item: item[0])
    probes = torch.randn(hidden, PROBES, generator=torch.Generator().manual_seed(20))
    return Basis(probes, turn.T @ probes, embed)


def _turn(
    candidate: Checkpoint, info: TensorInfo, rows: torch.Tensor, tokens: Sequence[int] | None
) -> list[tuple[float, torch.Tensor, str]]:
    """How well a table of the candidate is the reference's embedding, turned or not, and the turn."""
    most = len(rows) if tokens is None else min(info.shape[0], len(tokens), len(rows))
    mine = values.first_rows(candidate, View(info.name, info.shape), most)
    theirs = rows[: len(mine)]
    if tokens is not None:
        index = torch.tensor(list(tokens[: len(mine)]))
        kept = (index >= 0) & (index < len(rows))
        mine, theirs = mine[kept], rows[index[kept]]
    if len(mine) < 2:
        return []
    straight = float((values.unit(mine) * values.unit(theirs)).sum(dim=1).mean())
    found = [(straight, torch.eye(mine.shape[1]), info.name)]
    if straight < SAME_BASIS and len(mine) >= mine.shape[1]:
        left, _, right = torch.linalg.svd(theirs.T @ mine)
        turn = left @ right
        found.append((float((values.unit(theirs @ turn) * values.unit(mine)).sum(dim=1).mean()), turn, info.name))
    return found


def _pairs(candidate: Checkpoint, reference: Checkpoint, layout: Layout, basis: Basis) -> dict[str, str]:
    """Reference tensor to candidate tensor: within a shape first, then, where units were added, within a width."""
    hidden = layout.dims.hidden
    roles = _roles(layout)
    mine, theirs = _buckets(candidate, hidden), _buckets(reference, hidden)
    pairs = _tables(layout, mine, theirs, basis)
    for rename in (lambda key: key, lambda key: _width(key, hidden)):
        ours, wanted = _regrouped(mine, rename, set(pairs.values())), _regrouped(theirs, rename, set(pairs))
        for key, names in wanted.items():
            if key is not None and key in ours:
                pairs |= _matched(candidate, reference, (ours[key], names), layout, roles, basis)
    return pairs


def _regrouped(
    buckets: Mapping[Key, Sequence[str]], rename: Callable[[Key], Key | None], taken: set[str]
) -> dict[Key | None, list[str]]:
    """Buckets under other keys, without the names that are taken."""
    found: dict[Key | None, list[str]] = defaultdict(list)
    for key, names in buckets.items():
        found[rename(key)] += [name for name in names if name not in taken]
    return {key: names for key, names in found.items() if names}


def _width(key: Key, hidden: int) -> Key | None:
    """A matrix's shape with the axis that is not the stream left open."""
    if len(key) != 2 or (key[0] == hidden) == (key[1] == hidden):
        return None
    return ("writer",) if key[0] == hidden else ("reader",)


def _matched(
    candidate: Checkpoint,
    reference: Checkpoint,
    names: tuple[list[str], list[str]],
    layout: Layout,
    roles: Mapping[str, tuple[Slot, ...]],
    basis: Basis,
) -> dict[str, str]:
    """The best one-to-one matching of the candidate's and the reference's tensors of one bucket."""
    ours, wanted = names
    if len(ours) == len(wanted) == 1:
        return {wanted[0]: ours[0]}
    found = [_profiles(candidate, name, basis.candidate, layout.dims.hidden, None) for name in ours]
    targets = [_wanted(reference, name, roles, layout, basis) for name in wanted]
    scores = torch.tensor([[_score(a, b) for b in found] for a in targets])
    row, column = linear_sum_assignment(-scores.numpy())
    return {wanted[r]: ours[c] for r, c in zip(row.tolist(), column.tolist(), strict=True)}


def _tables(layout: Layout, mine: dict[Key, list[str]], theirs: dict[Key, list[str]], basis: Basis) -> dict[str, str]:
    """Embedding and head, taken out of the buckets; a head that only one of the two stores is left over."""
    embed, head = (layout.slots.get(Slot(role)) for role in (Role.EMBED, Role.HEAD))
    theirs.pop(TABLE, None)
    rest = [name for name in mine.pop(TABLE, []) if name != basis.embed]
    pairs = {embed.tensor: basis.embed} if embed is not None else {}
    if head is not None and len(rest) == 1:
        pairs[head.tensor] = rest[0]
    return pairs


def _roles(layout: Layout) -> dict[str, tuple[Slot, ...]]:
    """Slots of every stored tensor of the reference that does something known."""
    found: dict[str, list[Slot]] = defaultdict(list)
    for slot, view in layout.slots.items():
        found[view.tensor].append(slot)
    return {name: tuple(slots) for name, slots in found.items()}


def _buckets(checkpoint: Checkpoint, hidden: int) -> dict[Key, list[str]]:
    """Stored names by shape; tables, which may have been padded, by width only."""
    counts = Counter(info.shape for info in checkpoint.tensors.values())
    largest = max((i.numel for i in checkpoint.tensors.values() if len(i.shape) == 2), default=0)
    buckets: dict[Key, list[str]] = defaultdict(list)
    for name, info in checkpoint.tensors.items():
        table = len(info.shape) == 2 and info.shape[1] == hidden and info.numel == largest and counts[info.shape] <= 2
        buckets[TABLE if table else info.shape].append(name)
    return buckets


def _wanted(
    reference: Checkpoint, name: str, roles: Mapping[str, tuple[Slot, ...]], layout: Layout, basis: Basis
) -> list[torch.Tensor]:
    """Profiles a copy's tensor may have: as stored, and with the norm before it folded in."""
    found = _profiles(reference, name, basis.reference, layout.dims.hidden, None)
    for slot in roles.get(name, ())[:1]:
        gain = layout.slots.get(Slot(GAIN_OF.get(slot.role, Role.OTHER), slot.layer))
        if gain is not None:
            scale = reference.tensor(gain.tensor).float()
            found += _profiles(reference, name, basis.reference, layout.dims.hidden, scale)
    return found


def _profiles(
    checkpoint: Checkpoint, name: str, probes: torch.Tensor, hidden: int, gain: torch.Tensor | None
) -> list[torch.Tensor]:
    """What a tensor looks like from the residual stream, whatever the order, scale or sign of its lines.

    Matrices: mean squared cosine of lines with each probe, for every axis that is the stream. Vectors: themselves,
    along the probes where they are as wide as the stream, and sorted. All centred and of unit length.
    """
    shape = checkpoint.tensors[name].shape
    if len(shape) in (2, 3) and hidden in shape[-2:]:
        return [_centred(profile.log1p()) for profile in line_profiles(checkpoint, name, probes, gain)]
    flat = torch.nan_to_num(checkpoint.tensor(name).float(), 0.0, 0.0, 0.0).flatten()
    found = [flat, flat.sort().values, *([flat @ probes] if len(flat) == hidden else [])]
    kind = torch.tensor([GAIN_WEIGHT if values.is_gain(flat) else 0.0])
    return [_centred(v) for v in found] + [kind]


def _centred(x: torch.Tensor) -> torch.Tensor:
    x = x - x.mean()
    scaled: torch.Tensor = x / x.norm().clamp_min(1e-20)
    return scaled


def _score(wanted: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> float:
    """Best agreement of two tensors' profiles."""
    pairs = [(a, b) for a in wanted for b in found if a.shape == b.shape]
    kind = sum(float(a @ b) for a, b in pairs if len(a) == 1)
    return kind + max((float(a @ b) for a, b in pairs if len(a) > 1), default=0.0)
