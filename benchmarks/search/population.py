"""Thousands of fingerprints out of one real one: strangers, families of siblings, and disguised queries.

A real scan gives shapes, counts and spreads. A *stranger* keeps those and redraws every value. A relative at distance
``e`` gets Gaussian noise of relative size ``e`` wherever the fingerprint is linear in the weights, and the noise that
follows from it elsewhere (MinHash entries survive with probability q / (2 - q), q = 1 - 2 arctan(e) / pi; invariants
move by about ``e`` of their spread). The short vectors are recomputed from the parts by the library itself.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fingerprint.fingerprint import (
    Fingerprint,
    HeadInvariants,
    LayerInvariants,
    SlotSketch,
    TokenCosines,
    UnitInvariants,
)
from fingerprint.invariants import summary
from fingerprint.sketch.keyed import DEFAULT_KEY

Rng = np.random.Generator


def stranger(real: Fingerprint, rng: Rng) -> Fingerprint:
    """Another model of the same shapes that shares nothing."""
    return _rebuilt(real, rng, slot=_redrawn_slot, layer=_redrawn_layer, tokens=_redrawn_tokens, keep=0.0)


def relative(real: Fingerprint, e: float, rng: Rng, *, keep: float = 0.0) -> Fingerprint:
    """A model at relative distance ``e``; a fraction ``keep`` of its tensors is untouched."""
    return _rebuilt(
        real,
        rng,
        slot=lambda s, r: _moved_slot(s, e, r),
        layer=lambda x, r: _moved_layer(x, e, r),
        tokens=lambda t, r: _moved_tokens(t, e, r),
        keep=keep,
    )


def rotated(real: Fingerprint, e: float, rng: Rng) -> Fingerprint:
    """A copy in another basis: nothing linear survives, invariants move by rounding ``e``."""
    return _rebuilt(
        real,
        rng,
        slot=_redrawn_slot,
        layer=lambda x, r: _moved_layer(x, e, r),
        tokens=lambda t, r: _moved_tokens(t, e, r),
        keep=0.0,
    )


def graft(real: Fingerprint, share: float, rng: Rng) -> Fingerprint:
    """A stranger into which a ``share`` of the model's layers was put, with 1% noise."""
    other, moved = stranger(real, rng), relative(real, 0.01, rng)
    taken = set(list(real.layers)[: max(1, round(share * len(real.layers)))])
    slots = {s: (moved if s.layer in taken else other).slots[s] for s in real.slots}
    layers = {i: (moved if i in taken else other).layers[i] for i in real.layers}
    return _vectors(replace(other, slots=slots, layers=layers))


def _rebuilt(
    real: Fingerprint,
    rng: Rng,
    *,
    slot: Callable[[SlotSketch, Rng], SlotSketch],
    layer: Callable[[LayerInvariants, Rng], LayerInvariants],
    tokens: Callable[[TokenCosines, Rng], TokenCosines],
    keep: float,
) -> Fingerprint:
    kept = {t.name for t in real.tensors if rng.random() < keep}
    entries = tuple(
        t if t.name in kept else replace(t, digest=_fresh(rng), value=_fresh(rng), multiset=t.multiset and _fresh(rng))
        for t in real.tensors
    )
    return _vectors(
        replace(
            real,
            tensors=entries,
            slots={k: s if s.tensor in kept else slot(s, rng) for k, s in real.slots.items()},
            layers={i: layer(x, rng) for i, x in real.layers.items()},
            tokens={b: tokens(t, rng) for b, t in real.tokens.items()},
        )
    )


def _vectors(made: Fingerprint) -> Fingerprint:
    return replace(
        made,
        global_vector=summary.global_vector(made.layers, made.tokens, DEFAULT_KEY),
        basis_vector=summary.basis_vector(made.slots),
    )


def _redrawn_slot(slot: SlotSketch, rng: Rng) -> SlotSketch:
    drawn = rng.standard_normal(slot.linear.shape, dtype=np.float32)
    drawn *= np.float32(np.linalg.norm(slot.linear) / max(float(np.linalg.norm(drawn)), 1e-30))
    hashes = None if slot.minhash is None else rng.integers(0, 1 << 32, slot.minhash.shape, dtype=np.uint32)
    return replace(slot, linear=drawn, minhash=hashes)


def _moved_slot(slot: SlotSketch, e: float, rng: Rng) -> SlotSketch:
    other = _redrawn_slot(slot, rng)
    hashes = slot.minhash
    if hashes is not None and other.minhash is not None:
        q = 1 - 2 * math.atan(e) / math.pi
        hashes = np.where(rng.random(hashes.shape) < q / (2 - q), hashes, other.minhash)
    return replace(slot, linear=slot.linear + np.float32(e) * other.linear, minhash=hashes)


def _redrawn_layer(layer: LayerInvariants, rng: Rng) -> LayerInvariants:
    return _moved_layer(layer, math.inf, rng)


def _moved_layer(layer: LayerInvariants, e: float, rng: Rng) -> LayerInvariants:
    units, heads = layer.units, layer.heads
    if units is not None:
        units = _moved_units(units, e, rng)
    if heads is not None:
        heads = HeadInvariants(
            _moved(heads.value_output, e, rng),
            heads.value_output_scale,
            _moved(heads.query_key, e, rng),
            heads.query_key_scale,
        )
    return LayerInvariants(units, heads)


def _moved_units(units: UnitInvariants, e: float, rng: Rng) -> UnitInvariants:
    return replace(
        units,
        triples=_moved(units.triples, e, rng),
        gate={b: _moved(rows, e, rng) for b, rows in units.gate.items()},
    )


def _redrawn_tokens(tokens: TokenCosines, rng: Rng) -> TokenCosines:
    return _moved_tokens(tokens, math.inf, rng)


def _moved_tokens(tokens: TokenCosines, e: float, rng: Rng) -> TokenCosines:
    moved = _moved(tokens.embed, e, rng)
    return replace(tokens, embed=((moved + moved.T) / 2).astype(tokens.embed.dtype))


def _moved(values: np.ndarray, e: float, rng: Rng) -> np.ndarray:
    """Noise of ``e`` times the spread of each column; infinite: the column's values drawn anew from its spread."""
    if not values.size:
        return values
    spread = values.std(axis=0, keepdims=True, dtype=np.float64)
    noise = spread * rng.standard_normal(values.shape)
    middle = values.mean(axis=0, keepdims=True, dtype=np.float64)
    moved = middle + noise if math.isinf(e) else values.astype(np.float64) + e * noise
    return moved.astype(values.dtype)


def _fresh(rng: Rng) -> str:
    return hashlib.sha256(rng.bytes(32)).hexdigest()
