"""Roles by name, held against shapes: the way for every checkpoint whose names tell the truth.

Three passes: the table proposes a role for every name; the width of the residual stream and the stored orientation are
taken from all shapes together; then each proposal is cut into slots or, where its shape contradicts it, refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from fingerprint.checkpoint.interface import TensorInfo

from . import cutting
from .config import Hints
from .cutting import Heads
from .heads import solve_heads
from .interface import SHARED_EXPERT, Role, Slot, View
from .tables import CONV1D, POST_NORM, SANDWICH, STACK, Cut, Proposal, Stem, of_layer, of_top, split_ending

NORMS = frozenset({Role.NORM_ATTENTION, Role.NORM_MLP, Role.NORM_POST_ATTENTION, Role.NORM_POST_MLP, Role.FINAL_NORM})
VECTORS = NORMS | {Role.EMBED_NORM, Role.QUERY_NORM, Role.KEY_NORM}
TABLES = frozenset({Role.EMBED, Role.POSITION, Role.TOKEN_TYPE, Role.HEAD})


@dataclass(frozen=True)
class Claim:
    """A stored tensor and the role its name proposes for it. ``layer`` is renumbered from zero; -1 outside layers."""

    info: TensorInfo
    proposal: Proposal
    layer: int = -1
    stem_name: str = ""

    @property
    def role(self) -> Role:
        """The first role held."""
        return self.proposal.stem.roles[0]

    @property
    def matrix(self) -> bool:
        """Whether it is a weight of the residual stream (biases, norms and tables are not)."""
        return not self.proposal.bias and self.role not in VECTORS and self.role not in TABLES


@dataclass(frozen=True)
class Named:
    """What names gave.

    Attributes:
        slots: Slots whose shapes agreed.
        heads: Head geometry.
        hidden: Width of the residual stream.
        layers: Number of layers.
        prefix: What stands before ``layers.`` (for canonical names of the rest).
        post_norm: Names are those of a post-LN encoder.
        fused: Names are those of a grouped projection (NeoX, Falcon, Bloom).
        refused: Tensors whose shapes contradicted their names.
        notes: Contradictions.
        ambiguous: Pairs of roles that stayed open.
        source: ``names`` or ``shapes``.
        per_head_norms: Query or key norms gave the width of a head.
        heads_open: A grouped projection could not be cut for want of a head count.
        rope_open: Names leave open in which order rotary pairs lie.
    """

    slots: dict[Slot, View] = field(default_factory=dict)
    heads: Heads = field(default_factory=Heads)
    hidden: int = 0
    layers: int = 0
    prefix: str = ""
    post_norm: bool = False
    fused: bool = False
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ambiguous: tuple[tuple[str, str], ...] = ()
    source: str = "names"
    per_head_norms: bool = False
    heads_open: bool = False
    rope_open: bool = False


def by_names(tensors: Mapping[str, TensorInfo], hints: Hints, *, neighbours: bool = False) -> Named:
    """Roles of every tensor whose name is in the tables and whose shape agrees.

    Args:
        tensors: Stored tensors.
        hints: Claims of the config; used for head counts only.
        neighbours: Rotary pairs lie side by side where names are Meta's.

    Returns:
        Slots; empty where no name is known.
    """
    claims, prefix, notes = _claims(tensors)
    hidden = _hidden(claims)
    if not hidden:
        return Named()
    flipped = _majority_transposed(claims, hidden)
    inner = {c.layer: _inner(c, hidden, flipped) for c in claims if c.role is Role.OUT and c.matrix and c.layer >= 0}
    heads, contradictions = _heads(claims, hints, inner, hidden, flipped)
    slots: dict[Slot, View] = {}
    refused: list[str] = []
    for claim in claims:
        try:
            cut = list(_cut(claim, hidden, flipped, heads, inner.get(claim.layer, 0), neighbours))
        except (ValueError, LookupError):
            cut = []
        if not cut or any(slot in slots for slot, _ in cut):
            refused.append(claim.info.name)
        else:
            slots.update(cut)
    cuts = {claim.proposal.stem.cut for claim in claims}
    return Named(
        slots=slots,
        heads=heads,
        hidden=hidden,
        layers=1 + max((claim.layer for claim in claims), default=-1),
        prefix=prefix,
        post_norm=any(claim.stem_name in POST_NORM for claim in claims),
        fused=Cut.GROUPED in cuts,
        refused=tuple(refused),
        notes=(*notes, *contradictions),
        per_head_norms=any(s.role is Role.QUERY_NORM and v.shape == (heads.head_dim,) for s, v in slots.items()),
        heads_open=Cut.GROUPED in cuts and not heads.head_dim,
        rope_open=Cut.ROPE_PAIRS in cuts,
    )


def _claims(tensors: Mapping[str, TensorInfo]) -> tuple[list[Claim], str, list[str]]:
    """Proposals of the largest stack of layers and of what stands around it; its prefix; notes on its numbering."""
    stacks: dict[tuple[str, str], list[tuple[int, Claim]]] = {}
    tops: list[Claim] = []
    for name, info in tensors.items():
        found = STACK.match(name)
        proposal = of_layer(found["rest"]) if found else of_top(name)
        if proposal is None:
            continue
        if found:
            claim = Claim(info, proposal, stem_name=split_ending(found["rest"])[0])
            stacks.setdefault((found["prefix"], found["word"]), []).append((int(found["index"]), claim))
        else:
            tops.append(Claim(info, proposal))
    if not stacks:
        return [], "", []
    key = max(stacks, key=lambda k: sum(claim.info.numel for _, claim in stacks[k]))
    chosen = stacks[key]
    numbers = {number: place for place, number in enumerate(sorted({number for number, _ in chosen}))}
    notes = [] if list(numbers) == list(range(len(numbers))) else ["layers are numbered with gaps; counted from zero"]
    sandwich = any(claim.stem_name in SANDWICH for _, claim in chosen)
    layered = [_contextual(replace(claim, layer=numbers[number]), sandwich) for number, claim in chosen]
    return layered + _around(tops, key[0]), key[0], notes


def _contextual(claim: Claim, sandwich: bool) -> Claim:
    """Gemma 2/3 and OLMo 2 use Llama's name for the second norm for something else."""
    if sandwich and claim.stem_name == "post_attention_layernorm":
        stem = Stem((Role.NORM_POST_ATTENTION,))
        return replace(claim, proposal=replace(claim.proposal, stem=stem))
    return claim


def _around(tops: Iterable[Claim], prefix: str) -> list[Claim]:
    """Tensors outside the layers, those nearest to the chosen stack first, so that they win a slot."""

    def distance(claim: Claim) -> tuple[bool, int]:
        own = claim.proposal.prefix
        return not prefix.startswith(own), -len(own) if prefix.startswith(own) else len(own)

    return sorted(tops, key=distance)


def _hidden(claims: Iterable[Claim]) -> int:
    """Width of the residual stream: the commonest norm length, else the commonest axis of the matrices."""
    claims = list(claims)
    gains = Counter(
        c.info.shape[0] for c in claims if c.role in NORMS and not c.proposal.bias and len(c.info.shape) == 1
    )
    axes = Counter(chain.from_iterable(set(c.info.shape[-2:]) for c in claims if c.matrix and len(c.info.shape) >= 2))
    votes = gains or axes
    return votes.most_common(1)[0][0] if votes else 0


def _majority_transposed(claims: Iterable[Claim], hidden: int) -> bool:
    """Whether matrices that shapes leave open lie (in x out): as the decided ones do, else as GPT-2's names say."""
    votes, conv = 0, 0
    for claim in claims:
        if not claim.matrix or len(claim.info.shape) < 2:
            continue
        conv += 1 if claim.stem_name in CONV1D else -1
        try:
            flipped = cutting.is_transposed(claim.info.shape, writer=claim.role in cutting.WRITERS, hidden=hidden)
        except (ValueError, LookupError):
            continue
        votes += 1 if flipped else -1
    return votes > 0 if votes else conv > 0


def _transposed(claim: Claim, hidden: int, flipped: bool) -> bool:
    """Orientation of one matrix. Raises ValueError where its shape contradicts its role."""
    if len(claim.info.shape) < 2:
        raise ValueError("a matrix was expected")
    try:
        writer = claim.role in cutting.WRITERS
        return bool(cutting.is_transposed(claim.info.shape, writer=writer, hidden=hidden))
    except LookupError:
        return flipped


def _inner(claim: Claim, hidden: int, flipped: bool) -> int:
    """Input width of the attention's output matrix: the rows of the layer's queries."""
    try:
        return cutting.oriented(claim.info.shape, _transposed(claim, hidden, flipped))[1]
    except ValueError:
        return 0


def _heads(
    claims: Iterable[Claim], hints: Hints, inner: Mapping[int, int], hidden: int, flipped: bool
) -> tuple[Heads, tuple[str, ...]]:
    """Head geometry of the commonest layer."""
    keys: Counter[int] = Counter()
    norms: Counter[int] = Counter()
    for claim in claims:
        shape = claim.info.shape
        if claim.role in (Role.QUERY_NORM, Role.KEY_NORM) and len(shape) == 1:
            norms[shape[0]] += 1
        elif claim.matrix and len(shape) == 2 and Role.KEY in claim.proposal.stem.roles:
            try:
                rows = cutting.oriented(shape, _transposed(claim, hidden, flipped))[0]
            except ValueError:
                continue
            fused = len(claim.proposal.stem.roles) == 3
            keys[(rows - inner.get(claim.layer, 0)) // 2 if fused else rows] += 1
    queries = Counter(inner.values())
    if not keys or not queries:
        return Heads(), ()
    return solve_heads(
        hints,
        query_rows=queries.most_common(1)[0][0],
        key_rows=keys.most_common(1)[0][0],
        norm_length=next(iter(norms)) if len(norms) == 1 else 0,  # OLMo 2 norms all heads at once
    )


def _cut(
    claim: Claim, hidden: int, flipped: bool, heads: Heads, inner: int, neighbours: bool
) -> Iterator[tuple[Slot, View]]:
    """Slots of one tensor. Raises ValueError where its shape contradicts its name."""
    stem, shape, name = claim.proposal.stem, claim.info.shape, claim.info.name
    expert = SHARED_EXPERT if claim.proposal.shared else claim.proposal.expert
    roles = tuple(cutting.PER_LAYER_BIAS[role] for role in stem.roles) if claim.proposal.bias else stem.roles
    transpose = _transposed(claim, hidden, flipped) if claim.matrix else False
    if claim.matrix and len(shape) != (3 if stem.cut is Cut.PACKED else 2):
        raise ValueError("rank contradicts the role")
    if stem.cut is Cut.PACKED:
        yield from cutting.packed(name, shape, transpose, roles, claim.layer)
        return
    views = _views(claim, transpose, heads, inner, hidden, neighbours)
    for role, view in zip(roles, views, strict=True):
        yield Slot(role, claim.layer, expert), view


def _views(claim: Claim, transpose: bool, heads: Heads, inner: int, hidden: int, neighbours: bool) -> list[View]:
    """The view of each role of one tensor that is not packed."""
    stem, shape, name = claim.proposal.stem, claim.info.shape, claim.info.name
    rows = cutting.oriented(shape, transpose)[0] if shape else 1
    if stem.cut is Cut.STACKED and len(stem.roles) == 2:
        return list(cutting.stacked(name, shape, transpose, (rows // 2, rows - rows // 2)))
    if stem.cut in (Cut.STACKED, Cut.GROUPED):
        keys, odd = divmod(rows - inner, 2)
        if inner <= 0 or keys <= 0 or odd:
            raise ValueError("a fused projection must hold queries, keys and values")
        if stem.cut is Cut.STACKED:
            return list(cutting.stacked(name, shape, transpose, (inner, keys, keys)))
        if not heads.kv_heads or (heads.heads + 2 * heads.kv_heads) * heads.head_dim != rows:
            raise LookupError("heads are not known")
        return list(cutting.grouped(name, shape, transpose, heads))
    if neighbours and stem.cut is Cut.ROPE_PAIRS and heads.head_dim and rows % heads.head_dim == 0:
        return [cutting.half_split(name, shape, transpose, heads.head_dim)]
    return [_single(claim, transpose, hidden)]


def _single(claim: Claim, transpose: bool, hidden: int) -> View:
    """The view of a tensor that holds one role. Raises ValueError where its rank or width contradicts it."""
    shape, role = claim.info.shape, claim.role
    if claim.proposal.bias or role in VECTORS:
        wide = role in NORMS or role in cutting.WRITERS or role is Role.EMBED_NORM
        if len(shape) != 1 or (wide and shape[0] != hidden):
            raise ValueError("a vector of the role's width was expected")
    elif role in TABLES:
        if len(shape) != 2 or hidden not in shape:
            raise ValueError("a table as wide as the residual stream was expected")
        transpose = shape[1] != hidden
    return View(claim.info.name, cutting.oriented(shape, transpose), transpose=transpose)
