"""What undoing a symmetry leaves behind by itself: fitted transforms are off by their estimation error.

That error is structured (a slightly wrong mixing leaves ``E W``, a slightly wrong rotation ``W Omega``, a rounded gain
``W diag(e)``) and would look like learning. Each is the tangent space of its symmetry at the reference, so it is
removed exactly: what is left is looked at in coordinates of the complement, where a drawn change is iid again. A
learned change keeps almost all of itself, since tangent spaces are small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch

from fingerprint.architecture.interface import Dims, Role, Slot
from fingerprint.compare.align import Witness

GAINS = frozenset({"folded:norms", "regained:norms", "rescaled:mlp", "rescaled:residual", "split:mlp"})
VALUE_MIXING = frozenset({"mixed:value-output"})
KEY_MIXING = frozenset({"mixed:query-key", "rotated:query-key", "rescaled:query-key"})
READERS = frozenset({Role.QUERY, Role.KEY, Role.VALUE, Role.GATE, Role.UP, Role.EMBED, Role.HEAD, Role.ROUTER})
WRITERS = frozenset({Role.OUT, Role.DOWN})

SWEEPS = 3
"""Alternating projections onto row and column scalings; converges geometrically, three are enough for float32."""


def remove_scalings(delta: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """``delta`` without its components diag(a) R and R diag(b), float64 (m x n)."""
    d, r = delta.double().clone(), reference.double()
    rows = (r * r).sum(1, keepdim=True).clamp_min(1e-300)
    columns = (r * r).sum(0, keepdim=True).clamp_min(1e-300)
    for _ in range(SWEEPS):
        d -= r * ((d * r).sum(1, keepdim=True) / rows)
        d -= r * ((d * r).sum(0, keepdim=True) / columns)
    return d


def remove_rotation(
    deltas: Mapping[Slot, torch.Tensor], reference: Mapping[Slot, torch.Tensor], width: int
) -> dict[Slot, torch.Tensor]:
    """Deltas without the one infinitesimal rotation of the residual stream that fits all of them best.

    Solves min over antisymmetric Omega of sum |D - R Omega|^2 over readers (rows in the stream) and transposed writers:
    G Omega + Omega G = H - H^T with G = sum R^T R, H = sum R^T D, in the eigenbasis of G.
    """
    sides = [(s, s.role in WRITERS) for s in deltas if s.role in READERS | WRITERS and _spans(deltas[s], s, width)]
    if not sides:
        return dict(deltas)
    g = torch.zeros(width, width, dtype=torch.float64)
    h = torch.zeros(width, width, dtype=torch.float64)
    for slot, transposed in sides:
        r, d = _stream(reference[slot], transposed), _stream(deltas[slot], transposed)
        g += r.T @ r
        h += r.T @ d
    values, vectors = torch.linalg.eigh(g)
    right = vectors.T @ (h - h.T) @ vectors
    omega = vectors @ (right / (values[:, None] + values[None, :]).clamp_min(1e-12 * float(values.max()))) @ vectors.T
    out = dict(deltas)
    for slot, transposed in sides:
        left = _stream(deltas[slot], transposed) - _stream(reference[slot], transposed) @ omega
        out[slot] = left.T if transposed else left
    return out


def _spans(delta: torch.Tensor, slot: Slot, width: int) -> bool:
    return delta.ndim == 2 and delta.shape[0 if slot.role in WRITERS else 1] == width


def _stream(x: torch.Tensor, transposed: bool) -> torch.Tensor:
    return (x.T if transposed else x).double()


def heads(slot: Slot, transforms: Sequence[str]) -> bool:
    """Whether undoing a mixing touched this slot head by head."""
    done = set(transforms)
    return bool(
        (slot.role in (Role.VALUE, Role.OUT) and done & VALUE_MIXING)
        or (slot.role in (Role.QUERY, Role.KEY) and done & KEY_MIXING)
    )


def blocks(
    slot: Slot, delta: torch.Tensor, reference: torch.Tensor, transforms: Sequence[str], dims: Dims
) -> Iterator[torch.Tensor]:
    """``delta`` in coordinates that the undone transforms could not have touched: one block, or one per mixed head.

    Args:
        slot: Where it stands.
        delta: (m x n).
        reference: (m x n).
        transforms: What was undone.
        dims: Sizes, for the heads.
    """
    if not heads(slot, transforms) or dims.head_dim == 0:
        yield delta
        return
    heads_first = delta if slot.role is not Role.OUT else delta.T
    values = reference if slot.role is not Role.OUT else reference.T
    for start in range(0, heads_first.shape[0], dims.head_dim):
        r = values[start : start + dims.head_dim].double()
        if 2 * r.shape[0] > r.shape[1]:
            yield heads_first[start : start + dims.head_dim]
            continue
        basis = torch.linalg.qr(r.T, mode="complete").Q[:, r.shape[0] :]
        yield heads_first[start : start + dims.head_dim].double() @ basis


def own_gauge(slot: Slot, x: torch.Tensor, witness: Witness, dims: Dims) -> torch.Tensor:
    """``x`` (a delta, or the reference) as it lies in the candidate's own gauge, up to scales and order.

    Rounding and noise are drawn where the candidate is stored; undoing a rotation or a mixing correlates them. Scales
    of rows and columns are left out: the flip null does not see them.
    """
    out = x.double()
    mixing = _mixing(slot, witness)
    if mixing is not None and dims.head_dim and _divides(out, slot, dims.head_dim):
        out = _by_head(out, mixing, slot)
    if witness.rotation is not None and witness.permutations.get("residual") is None:
        rotation = witness.rotation.double()
        if slot.role in WRITERS and out.shape[0] == rotation.shape[0]:
            out = rotation @ out
        elif slot.role in READERS and out.shape[1] == rotation.shape[0]:
            out = out @ rotation.T
    return out


def _mixing(slot: Slot, witness: Witness) -> torch.Tensor | None:
    """Per group, what to multiply the slot's head rows by from the left to go back to the candidate's gauge."""
    value = witness.mixings.get(f"value-output:{slot.layer}")
    key = witness.mixings.get(f"query-key:{slot.layer}")
    if slot.role is Role.VALUE and value is not None:
        return value.double().pinverse()
    if slot.role is Role.OUT and value is not None:
        return value.double().mT
    if slot.role is Role.KEY and key is not None:
        return key.double().pinverse()
    if slot.role is Role.QUERY and key is not None:
        return key.double().mT
    return None


def _divides(x: torch.Tensor, slot: Slot, head: int) -> bool:
    return x.ndim == 2 and x.shape[1 if slot.role is Role.OUT else 0] % head == 0


def _by_head(x: torch.Tensor, mixing: torch.Tensor, slot: Slot) -> torch.Tensor:
    """Apply (groups, dh, dh) from the left to the heads of ``x``; query heads share their group's."""
    rows = x.T if slot.role is Role.OUT else x
    head = mixing.shape[-1]
    parts = rows.reshape(-1, head, rows.shape[1])
    if parts.shape[0] % mixing.shape[0]:
        return x
    done = (mixing.repeat_interleave(parts.shape[0] // mixing.shape[0], dim=0) @ parts).reshape(rows.shape)
    return done.T if slot.role is Role.OUT else done
