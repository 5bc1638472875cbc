"""MLP units: order, scale and splitting (2-weights section 4, rows "SwiGLU units" and "unit split").

A unit is a gate row, an up row and a down column; order is found from the rows that no scale reaches. The scale of a
unit (u -> s u, d -> d / s) is estimated from up and from down apart: when it was applied, both tell the same story; a
learned change tells opposite ones, since training moves at right angles to what changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from fingerprint.architecture.interface import Role, Slot

from .alignment import Witness
from .matching import Match, match_rows, nearest, normalised, row_cosines
from .side import Side

SAME_UNIT = 0.6
"""Median cosine at which a matching of units is believed; independents reach .47 (2-weights section 4)."""

AGREEMENT = 0.8
"""Correlation of two separate estimates of one symmetry's parameter above which it was applied."""

WORTHWHILE = 0.9
DECISIVE = 0.5
ROUNDING = 2e-6
_SILENT = 1e-4
_IDLE = 0.3
"""Strength of a unit that was added to hide others, against the median: zero, or what noise made of zero."""
_NEAR_ONE = 0.1
"""One factor this near to 1 on all units is a tensor that was scaled, not units that were disguised."""


@dataclass
class Block:
    """The unit matrices of one MLP: gate may be absent. Rows are units; ``down`` is transposed to (I x d).

    ``beside``: whether biases stand beside the rows, as they do where both sides have them.
    """

    side: Side
    layer: int
    expert: int
    beside: bool = True

    def _rows(self, role: Role) -> torch.Tensor:
        slot = self.slot(role)
        return self.side.augmented(slot) if self.beside else self.side.reader(slot)

    def slot(self, role: Role) -> Slot:
        """Slot of a role in this MLP."""
        return Slot(role, self.layer, self.expert)

    def has(self, role: Role) -> bool:
        """Whether this MLP has the role."""
        return self.slot(role) in self.side.tensors

    @property
    def units(self) -> int:
        """Number of units."""
        return int(self.side.tensors[self.slot(Role.UP)].shape[0])

    @property
    def key(self) -> torch.Tensor:
        """Rows that order is found from, gains folded: the gate, or up beside down in a plain MLP."""
        if self.has(Role.GATE):
            return self._rows(Role.GATE)
        up = normalised(self._rows(Role.UP))
        return torch.cat([up, normalised(self.down)], dim=1)

    @property
    def up(self) -> torch.Tensor:
        """Up rows with gain folded and bias beside them."""
        return self._rows(Role.UP)

    @property
    def down(self) -> torch.Tensor:
        """Down columns as rows."""
        return self.side.tensors[self.slot(Role.DOWN)].T

    def reorder(self, order: torch.Tensor) -> None:
        """Put units in this order, biases too."""
        for role in (Role.GATE, Role.UP, Role.GATE_BIAS, Role.UP_BIAS):
            if self.has(role):
                self.side.tensors[self.slot(role)] = self.side.tensors[self.slot(role)][order]
        self.side.tensors[self.slot(Role.DOWN)] = self.side.tensors[self.slot(Role.DOWN)][:, order]

    def scale(self, factors: torch.Tensor) -> None:
        """Divide up rows (and biases) and multiply down columns by ``factors``."""
        self.side.tensors[self.slot(Role.UP)] = self.side.tensors[self.slot(Role.UP)] / factors[:, None]
        if self.has(Role.UP_BIAS):
            self.side.tensors[self.slot(Role.UP_BIAS)] = self.side.tensors[self.slot(Role.UP_BIAS)] / factors
        self.side.tensors[self.slot(Role.DOWN)] = self.side.tensors[self.slot(Role.DOWN)] * factors


def align_units(candidate: Side, reference: Side, layer: int, expert: int, witness: Witness) -> set[str]:
    """Undo order, scale and splitting of one MLP, in place on the candidate (and on a reference that was split).

    Args:
        candidate: Already in the reference's basis and layer numbers.
        reference: The other side.
        layer: Which layer.
        expert: Which expert, or -1.
        witness: Takes permutations and scales.

    Returns:
        Transforms undone.
    """
    c, r = Block(candidate, layer, expert), Block(reference, layer, expert)
    if not all(b.has(Role.UP) and b.has(Role.DOWN) for b in (c, r)) or c.has(Role.GATE) != r.has(Role.GATE):
        return set()
    if c.up.shape[1] != r.up.shape[1] or c.key.shape[1] != r.key.shape[1]:
        c, r = replace(c, beside=False), replace(r, beside=False)
    if c.up.shape[1] != r.up.shape[1] or c.key.shape[1] != r.key.shape[1]:
        return set()
    name = f"mlp:{layer}" if expert < 0 else f"mlp:{layer}.{expert}"
    done: set[str] = set()
    if c.units != r.units:
        big, small = (c, r) if c.units > r.units else (r, c)
        done |= _merge(big, small)
    if c.units != r.units:
        return done
    done |= _reorder(c, r, name, witness)
    if c.has(Role.GATE):
        done |= _rescale(c, r, name, witness)
    return done


def _reorder(c: Block, r: Block, name: str, witness: Witness) -> set[str]:
    """Undo a permutation of units if one is there."""
    here = row_cosines(c.key, r.key)
    stray = here < SAME_UNIT
    if not bool(stray.any()):
        return set()
    settled = float(here.median()) > SAME_UNIT
    if settled:
        order = _strays(c.key, r.key, here, stray)
    else:
        match = match_rows(c.key, r.key)
        witness.evidence[f"match:{name}"] = float(match.score.median())
        if float(match.score.median()) < SAME_UNIT or bool((match.order < 0).any()):
            return set()
        order = match.order
    if bool((order == torch.arange(len(order))).all()):
        return set()
    c.reorder(order)
    witness.permuted(name, order)
    return {"permuted:mlp"}


def _strays(c: torch.Tensor, r: torch.Tensor, here: torch.Tensor, stray: torch.Tensor) -> torch.Tensor:
    """Most units stand where they stood: rematch the others among themselves, and only where that is clearly better."""
    order = torch.arange(len(here))
    rows = torch.nonzero(stray).flatten()
    match: Match = match_rows(c[rows], r[rows])
    better = bool((match.order >= 0).all()) and float(match.score.median()) > SAME_UNIT
    if better and float(match.score.median()) > float(here[rows].median()) + 0.2:
        order[rows] = rows[match.order]
    return order


def scale_estimates(c: Block, r: Block) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale of each unit by least squares, from up and from down apart, (I,) each."""
    up_c, up_r, down_c, down_r = c.up, r.up, c.down, r.down
    from_up = torch.linalg.vecdot(up_c, up_r) / up_r.square().sum(dim=1).clamp_min(1e-30)
    from_down = torch.linalg.vecdot(down_c, down_r) / down_c.square().sum(dim=1).clamp_min(1e-30)
    return from_up, from_down


def _rescale(c: Block, r: Block, name: str, witness: Witness) -> set[str]:
    """Undo a scale of units if up and down agree on it."""
    if torch.equal(c.up, r.up) and torch.equal(c.down, r.down):
        return set()
    from_up, from_down = scale_estimates(c, r)
    same_sign = (from_up * from_down > 0) & torch.isfinite(from_up) & torch.isfinite(from_down)
    size = (from_up.abs() * from_down.abs()).clamp_min(1e-30).sqrt()
    factors = torch.where(same_sign, torch.sign(from_up) * size, torch.ones_like(size))
    factors = torch.where(factors.abs() > 1e-6, factors, torch.ones_like(factors))
    before = _gap(c.up, r.up, c.down, r.down)
    after = _gap(c.up / factors[:, None], r.up, c.down * factors[:, None], r.down)
    logs = torch.stack([from_up.abs(), from_down.abs()]).clamp_min(1e-12).log()
    flips = float(((from_up < 0) & (from_down < 0)).float().mean())
    agree = agreement(logs[0], logs[1])
    witness.evidence[f"scale:{name}"] = agree
    wanted = before > ROUNDING and (agree > AGREEMENT or flips > 0) and after < WORTHWHILE * before
    away = factors.log() if flips == 0 else factors
    common = flips == 0 and abs(float(away.mean())) < _NEAR_ONE and float(away.std()) < 0.3 * abs(float(away.mean()))
    if not wanted or common or (flips == 0 and float((factors - 1).abs().max()) < 1e-4):
        return set()
    c.scale(factors)
    witness.scaled(name, factors)
    return {"rescaled:mlp"}


def _gap(up_c: torch.Tensor, up_r: torch.Tensor, down_c: torch.Tensor, down_r: torch.Tensor) -> float:
    """Relative residual over up and down together, each against its own size."""
    up = float((up_c - up_r).square().sum() / up_r.square().sum().clamp_min(1e-30))
    down = float((down_c - down_r).square().sum() / down_r.square().sum().clamp_min(1e-30))
    return float((0.5 * (up + down)) ** 0.5)


def agreement(a: torch.Tensor, b: torch.Tensor) -> float:
    """How far two estimates of one (log) parameter say the same, in [-1, 1]: 2 <a, b> / (|a|^2 + |b|^2).

    Not centred: a common factor must be told by both, else a tensor that was merely scaled would pass.
    """
    size = float(a.square().sum() + b.square().sum())
    return float(2.0 * (a * b).sum()) / size if size > 1e-12 else 0.0


def _merge(big: Block, small: Block) -> set[str]:
    """Put units that were split together again, in place on ``big``.

    Each unit of the larger side goes to its nearest on the smaller; the gate must agree, and the up row up to a
    factor. Parts of a unit are brought to the scale of its first part; then their down columns add up.

    Returns:
        Transforms undone; if there are any, the larger side now has the smaller one's units in their order.
    """
    owner, score, _ = nearest(big.key if big.has(Role.GATE) else big.up, small.key if big.has(Role.GATE) else small.up)
    done: set[str] = set()
    strength = _strength(big)
    idle = (strength < _SILENT) | ((score < SAME_UNIT) & (strength < _IDLE))
    if bool(idle.any()) and int((~idle).sum()) >= small.units:
        big.reorder(torch.nonzero(~idle).flatten())
        owner, score, done = owner[~idle], score[~idle], {"padded:mlp"}
    if float(score.median()) < SAME_UNIT or len(torch.unique(owner)) != small.units:
        return set()
    if big.units == small.units:
        return done
    up, target = big.up, small.up[owner]
    if float(row_cosines(up, target).abs().median()) < SAME_UNIT:
        return set()
    if big.has(Role.GATE):
        factor = torch.linalg.vecdot(up, target) / target.square().sum(dim=1).clamp_min(1e-30)
        factor = torch.where(factor.abs() > 1e-6, factor, torch.ones_like(factor))
        first = torch.full((small.units,), big.units).scatter_reduce(0, owner, torch.arange(big.units), "amin")
        big.scale(factor / factor[first[owner]])
    _sum_groups(big, owner, small.units)
    kept = owner[: small.units]
    in_order = bool((kept == torch.arange(small.units)).all()) or bool((owner.diff() >= 0).all())
    return done | ({"split:mlp"} if in_order else {"split:mlp", "permuted:mlp"})


def _strength(block: Block) -> torch.Tensor:
    """How much each unit can write, against the median unit, (I,)."""
    strength = block.up.norm(dim=1) * block.down.norm(dim=1)
    relative: torch.Tensor = strength / strength.median().clamp_min(1e-30)
    return relative


def _sum_groups(block: Block, owner: torch.Tensor, units: int) -> None:
    """Average gate and up over the parts of each unit, and add up their down columns."""
    count = torch.bincount(owner, minlength=units).clamp_min(1)
    for role in (Role.GATE, Role.UP, Role.GATE_BIAS, Role.UP_BIAS):
        if block.has(role):
            x = block.side.tensors[block.slot(role)]
            total = torch.zeros((units, *x.shape[1:])).index_add_(0, owner, x)
            block.side.tensors[block.slot(role)] = total / count.reshape(-1, *[1] * (x.ndim - 1))
    down = block.side.tensors[block.slot(Role.DOWN)]
    block.side.tensors[block.slot(Role.DOWN)] = torch.zeros(down.shape[0], units).index_add_(1, owner, down)
