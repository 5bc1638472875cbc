"""Mixings inside heads: any invertible matrix between value and output, or between query and key without RoPE.

Left factor L (rows per head, e.g. W_v) and right factor P (W_o's columns): L -> M L, P -> P M^-1. M has n x n free
parameters, enough to swallow part of an honest change, so it is estimated from L and from P apart. Under a true
mixing both estimates are one matrix; under training they point apart, because the gradient is orthogonal to the
orbit of a symmetry. Only then is it undone, by the M that serves both sides best.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fingerprint.architecture.interface import Role

from .alignment import Witness
from .heads import Attention
from .units import DECISIVE, ROUNDING, WORTHWHILE

_ROUNDS = 4
_RIDGE = 1e-9
_AGREE = 0.5
"""Largest disagreement of the two estimates, as a part of their distance from the identity."""


_NEAR_ONE = 0.1
_UNALIKE = 0.5
"""Residual above which even estimates that noise pulls apart cannot be an honest change swallowed."""


@dataclass(frozen=True)
class Fit:
    """A mixing that was fitted.

    Attributes:
        change: (groups, n, n) applied to the candidate's left factor; its inverse goes to the right factor.
        before: Relative residual without it.
        after: Relative residual with it.
        disagreement: |N_left N_right^-1 - 1| over the distance of both from 1, the median group.
    """

    change: torch.Tensor
    before: float
    after: float
    disagreement: float

    @property
    def applied(self) -> bool:
        """Whether the evidence says that a mixing was applied."""
        if self.before <= ROUNDING or merely_scaled(self.change):
            return False
        if self.disagreement < _AGREE:
            return self.after < WORTHWHILE * self.before
        return self.before > _UNALIKE and self.after < DECISIVE * self.before


def merely_scaled(change: torch.Tensor) -> bool:
    """Whether a change is one factor near 1 for all heads: tensors that were scaled apart, by chance inversely."""
    n = change.shape[-1]
    factor = float(change.diagonal(dim1=-2, dim2=-1).mean())
    eye = torch.eye(n, dtype=change.dtype)
    away, rest = float((change - eye).norm()), float((change - factor * eye).norm())
    return abs(factor - 1.0) < _NEAR_ONE and rest < 0.3 * away


def fit_mixing(left: tuple[torch.Tensor, torch.Tensor], right: tuple[torch.Tensor, torch.Tensor]) -> Fit:
    """Fit N with N L_c = L_r and P_c N^-1 = P_r.

    Args:
        left: (groups, n, d) of candidate and reference.
        right: (groups, d', n) of candidate and reference.

    Returns:
        Fit; computed in float64.
    """
    lc, lr = (x.double() for x in left)
    pc, pr = (x.double() for x in right)
    eye = torch.eye(lc.shape[1], dtype=torch.float64)
    before = _gap(lc, lr, pc, pr)
    if before <= ROUNDING:
        return Fit(eye.float().expand(lc.shape[0], -1, -1), before, before, float("inf"))
    from_left = _solve(lc @ lc.mT, lc @ lr.mT).mT
    inverse_right = _solve(pc.mT @ pc, pc.mT @ pr)
    gap = (from_left @ inverse_right - eye).flatten(1).norm(dim=1)
    away = torch.minimum((from_left - eye).flatten(1).norm(dim=1), (inverse_right - eye).flatten(1).norm(dim=1))
    change = _joint(lc, lr, pc, pr, from_left)
    after = _gap(change @ lc, lr, pc @ torch.linalg.inv(change), pr)
    return Fit(change.float(), before, after, float((gap / away.clamp_min(1e-12)).median()))


def _solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Solve a x = b for symmetric a with a tiny ridge against rank loss."""
    ridge = _RIDGE * a.diagonal(dim1=-2, dim2=-1).mean(dim=-1).clamp_min(1e-30)
    solved: torch.Tensor = torch.linalg.solve(a + ridge[:, None, None] * torch.eye(a.shape[-1], dtype=a.dtype), b)
    return solved


def _joint(lc: torch.Tensor, lr: torch.Tensor, pc: torch.Tensor, pr: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Gauss-Newton on both sides at once; each step solves a Sylvester equation in the eigenbases of two Grams."""
    wl = 1.0 / lr.square().sum(dim=(1, 2)).clamp_min(1e-30)[:, None, None]
    wp = 1.0 / pr.square().sum(dim=(1, 2)).clamp_min(1e-30)[:, None, None]
    best, best_gap = start, float("inf")
    n = start
    for _ in range(_ROUNDS):
        inverse, info = torch.linalg.inv_ex(n)
        if bool(info.any()) or not bool(torch.isfinite(inverse).all()):
            break
        left, right = n @ lc, pc @ inverse
        gap = _gap(left, lr, right, pr)
        if gap >= best_gap:
            break
        best, best_gap = n, gap
        step = wl * ((lr - left) @ left.mT) + wp * (right.mT @ (right - pr))
        ea, ua = torch.linalg.eigh(wl * (left @ left.mT))
        eb, ub = torch.linalg.eigh(wp * (right.mT @ right))
        inner = ub.mT @ step @ ua / (eb[:, :, None] + ea[:, None, :]).clamp_min(1e-12)
        n = n + ub @ inner @ ua.mT @ n
    return best


def _gap(lc: torch.Tensor, lr: torch.Tensor, pc: torch.Tensor, pr: torch.Tensor) -> float:
    """Relative residual over both factors, each against its own size."""
    left = (lc - lr).square().sum() / lr.square().sum().clamp_min(1e-30)
    right = (pc - pr).square().sum() / pr.square().sum().clamp_min(1e-30)
    return float((0.5 * (left + right)).sqrt())


def align_value_output(candidate: Attention, reference: Attention, witness: Witness) -> set[str]:
    """Undo a mixing between value and output of each key/value group, in place on the candidate."""
    values = candidate.heads(Role.VALUE), reference.heads(Role.VALUE)
    outs = _grouped(candidate.heads(Role.OUT), candidate.repeat), _grouped(reference.heads(Role.OUT), reference.repeat)
    if values[0].shape != values[1].shape or outs[0].shape != outs[1].shape:
        return set()
    fit = fit_mixing(values, (outs[0], outs[1]))
    name = f"value-output:{reference.layer}"
    _note(witness, name, fit)
    if not fit.applied:
        return set()
    candidate.map_rows(Role.VALUE, fit.change)
    candidate.map_out(torch.linalg.inv(fit.change.double()).float().repeat_interleave(candidate.repeat, dim=0))
    witness.mixed(name, fit.change)
    return {"mixed:value-output"}


def align_query_key_free(candidate: Attention, reference: Attention, witness: Witness) -> set[str]:
    """Undo any invertible change between query and key, for models without RoPE, in place on the candidate."""
    keys = candidate.heads(Role.KEY), reference.heads(Role.KEY)
    queries = [_grouped(a.heads(Role.QUERY), a.repeat) for a in (candidate, reference)]
    if keys[0].shape != keys[1].shape or queries[0].shape != queries[1].shape:
        return set()
    fit = fit_mixing(keys, (queries[0], queries[1]))
    name = f"query-key:{reference.layer}"
    _note(witness, name, fit)
    if not fit.applied:
        return set()
    candidate.map_rows(Role.KEY, fit.change)
    inverse = torch.linalg.inv(fit.change.double()).mT.float()
    candidate.map_rows(Role.QUERY, inverse.repeat_interleave(candidate.repeat, dim=0))
    witness.mixed(name, fit.change)
    return _words(fit.change)


def _words(change: torch.Tensor) -> set[str]:
    """Whether a change of query and key turns, rescales, or both."""
    s = torch.linalg.svdvals(change)
    spread = float((s - 1).abs().max())
    turned = change / s.mean(dim=1)[:, None, None]
    off = float((turned - torch.diag_embed(turned.diagonal(dim1=1, dim2=2))).flatten(1).norm(dim=1).max())
    words = set()
    if off > 1e-3:
        words.add("rotated:query-key")
    if spread > 1e-3 or not words:
        words.add("rescaled:query-key")
    return words


def _grouped(heads: torch.Tensor, repeat: int) -> torch.Tensor:
    """(heads, n, d) to (groups, repeat * d, n): the columns that one group's mixing reaches."""
    groups = heads.shape[0] // repeat
    return heads.reshape(groups, repeat, *heads.shape[1:]).permute(0, 1, 3, 2).reshape(groups, -1, heads.shape[1])


def _note(witness: Witness, name: str, fit: Fit) -> None:
    witness.evidence[f"{name}:before"] = fit.before
    witness.evidence[f"{name}:after"] = fit.after
    witness.evidence[f"{name}:disagreement"] = fit.disagreement
