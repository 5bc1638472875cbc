"""Query and key under RoPE: per frequency pair only a rotation and a scale keep the function.

Rows j and j + dim/2 of a head are the real and imaginary part of one complex row; the symmetry multiplies the key's
by z = r exp(it) and the query's by 1/conj(z) (RoFormer, arXiv 2104.09864; 2-weights section 4). Two numbers a pair,
told by key and query separately, must agree. With QK-norm (Qwen3) the scale of a head is free instead, rotation is
left only where gains are equal, and gains can be traded between query and key.
"""

from __future__ import annotations

import torch

from fingerprint.architecture.interface import Role

from .alignment import Witness
from .heads import Attention
from .units import AGREEMENT, DECISIVE, ROUNDING, WORTHWHILE, agreement

_MATTERS = 1e-3
_UNALIKE = 0.5
_NEAR_ONE = 0.1
_SCALED = 0.05
"""One factor up to this on all heads of a tensor is a tensor that was scaled (|log|)."""


def as_complex(heads: torch.Tensor, rotary: int) -> torch.Tensor:
    """(heads, head_dim, d) to the complex rows of its rotary part, (heads, rotary/2, d), half-split order."""
    half = rotary // 2
    return torch.complex(heads[:, :half].double(), heads[:, half:rotary].double())


def align_query_key(candidate: Attention, reference: Attention, witness: Witness) -> set[str]:
    """Undo per-pair rotations and scales, head scales and traded gains, in place on the candidate.

    Returns:
        Transforms undone.
    """
    rotary = reference.side.layout.rotary_dim or reference.head_dim
    normed = reference.slot(Role.QUERY_NORM) in reference.side.tensors
    done: set[str] = set()
    if normed:
        done |= _trade_gains(candidate, reference, witness)
    done |= _pairs(candidate, reference, rotary, witness, turn_only=normed)
    if normed:
        done |= _head_scales(candidate, reference, witness)
    return done


def _pairs(candidate: Attention, reference: Attention, rotary: int, witness: Witness, *, turn_only: bool) -> set[str]:
    """Fit z per group and pair from keys and from queries; undo it when both agree."""
    kc, kr = (as_complex(a.heads(Role.KEY), rotary) for a in (candidate, reference))
    qc, qr = (as_complex(a.heads(Role.QUERY), rotary) for a in (candidate, reference))
    if kc.shape != kr.shape or qc.shape != qr.shape:
        return set()
    if turn_only:
        kc, kr, qc, qr = (_level(x) for x in (kc, kr, qc, qr))
    groups = kc.shape[0]
    qc, qr = (x.reshape(groups, candidate.repeat, *x.shape[1:]).transpose(1, 2).flatten(2) for x in (qc, qr))
    from_key, from_query = _factor(kr, kc), _factor(qc, qr).conj()
    if turn_only:
        from_key, from_query = (_unit(z) for z in (from_key, from_query))
    z = _merge(from_key, from_query)
    before = _gap(kc, kr, qc, qr)
    after = _gap(kc / z[..., None], kr, qc * z.conj()[..., None], qr)
    logs = (torch.view_as_real(x.log()) for x in (from_key, from_query))
    agree = agreement(*logs)
    name = f"query-key:{reference.layer}"
    witness.evidence |= {f"{name}:before": before, f"{name}:after": after, f"{name}:agreement": agree}
    clear = after < DECISIVE * before and before > _UNALIKE
    if before <= ROUNDING or not (clear or (agree > AGREEMENT and after < WORTHWHILE * before)):
        return set()
    if _merely_scaled(z):
        return set()
    key_change = _as_matrix(1 / z, candidate.head_dim)
    query_change = _as_matrix(z.conj(), candidate.head_dim).repeat_interleave(candidate.repeat, dim=0)
    candidate.map_rows(Role.KEY, key_change)
    candidate.map_rows(Role.QUERY, query_change)
    witness.mixed(name, key_change)
    words = set()
    if float(z.angle().abs().max()) > _MATTERS:
        words.add("rotated:query-key")
    if float(z.abs().log().abs().max()) > _MATTERS or not words:
        words.add("rescaled:query-key")
    return words


def _factor(base: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    """The z with image = z base, (groups, pairs); its size is balanced so that noise does not shrink it."""
    inner = (base.conj() * image).sum(dim=-1)
    size = (image.abs().square().sum(dim=-1) / base.abs().square().sum(dim=-1).clamp_min(1e-30)).sqrt()
    return _unit(inner) * size.clamp_min(1e-12)


def _unit(z: torch.Tensor) -> torch.Tensor:
    size = z.abs()
    return torch.where(size > 1e-30, z / size.clamp_min(1e-30), torch.ones_like(z))


def _merge(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Mean direction and geometric mean of sizes."""
    return _unit(_unit(a) + _unit(b)) * (a.abs() * b.abs()).sqrt()


def _merely_scaled(z: torch.Tensor) -> bool:
    """Whether z is one factor near 1 everywhere: tensors that were scaled apart, by chance inversely."""
    factor = float(z.abs().log().mean())
    return abs(factor) < _NEAR_ONE and float((z.log() - factor).abs().square().mean().sqrt()) < 0.3 * abs(factor)


def _level(heads: torch.Tensor) -> torch.Tensor:
    """Heads at unit size: QK-norm does not see how large they are."""
    return heads / heads.abs().square().sum(dim=(1, 2), keepdim=True).sqrt().clamp_min(1e-30)


def _gap(kc: torch.Tensor, kr: torch.Tensor, qc: torch.Tensor, qr: torch.Tensor) -> float:
    key = (kc - kr).abs().square().sum() / kr.abs().square().sum().clamp_min(1e-30)
    query = (qc - qr).abs().square().sum() / qr.abs().square().sum().clamp_min(1e-30)
    return float((0.5 * (key + query)).sqrt())


def _as_matrix(z: torch.Tensor, head: int) -> torch.Tensor:
    """Multiplication by z on half-split complex rows as (groups, head, head) float32; 1 outside the rotary part."""
    half = z.shape[1]
    full = torch.eye(head, dtype=torch.float64).repeat(z.shape[0], 1, 1)
    i = torch.arange(half)
    full[:, i, i], full[:, i + half, i + half] = z.real, z.real
    full[:, i, i + half], full[:, i + half, i] = -z.imag, z.imag
    return full.float()


def _trade_gains(candidate: Attention, reference: Attention, witness: Witness) -> set[str]:
    """Undo gains moved from query to key: their product is the reference's, they themselves are not."""
    slots = candidate.slot(Role.QUERY_NORM), candidate.slot(Role.KEY_NORM)
    if any(s not in a.side.tensors for s in slots for a in (candidate, reference)):
        return set()
    qc, kc, qr, kr = (a.side.head_gain(s) for a in (candidate, reference) for s in slots)
    if qc is None or kc is None or qr is None or kr is None:
        return set()
    if qc.shape != qr.shape or kc.shape != kr.shape or bool((torch.cat([qc * qr, kc * kr]) <= 0).any()):
        return set()
    moved = 0.5 * ((qc / qr).log() - (kc / kr).log())
    half = moved.shape[0] // 2
    pair = 0.5 * (moved[:half] + moved[half:])
    factor = torch.cat([pair, pair]).exp()
    before = float(((qc - qr).norm() / qr.norm()).hypot((kc - kr).norm() / kr.norm()))
    after = float(((qc / factor - qr).norm() / qr.norm()).hypot((kc * factor - kr).norm() / kr.norm()))
    if before <= ROUNDING or after >= DECISIVE * before:
        return set()
    for slot, old, new in ((slots[0], qc, qc / factor), (slots[1], kc, kc * factor)):
        candidate.side.tensors[slot] = candidate.side.tensors[slot] + (new - old)
    witness.scales[f"query-key-gains:{reference.layer}"] = factor
    return {"rescaled:query-key"}


def _head_scales(candidate: Attention, reference: Attention, witness: Witness) -> set[str]:
    """Undo the scale of each query and key head, which QK-norm makes free.

    Not where all heads carry one factor near 1: then the tensor was scaled, and nothing is hidden.
    """
    done: set[str] = set()
    for role in (Role.QUERY, Role.KEY):
        c, r = (a.heads(role).flatten(1) for a in (candidate, reference))
        if c.shape != r.shape:
            continue
        factor = c.norm(dim=1) / r.norm(dim=1).clamp_min(1e-30)
        factor = torch.where(factor > 1e-12, factor, torch.ones_like(factor))
        before = float((c - r).norm() / r.norm())
        after = float((c / factor[:, None] - r).norm() / r.norm())
        spread = float(factor.log().abs().max())
        own = float((factor / factor.median()).log().abs().max())
        if before <= ROUNDING or spread < 1e-4:
            continue
        if after < DECISIVE * before and (own > 0.25 * spread or spread > _SCALED):
            eye = torch.eye(candidate.head_dim).repeat(len(factor), 1, 1)
            candidate.map_rows(role, eye / factor[:, None, None])
            witness.scaled(f"{role.value}-heads:{reference.layer}", factor)
            done.add("rescaled:query-key")
    return done
