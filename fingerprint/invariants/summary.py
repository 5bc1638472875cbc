"""Two short vectors per model, for finding candidates among many thousand by one matrix product.

They only propose; the comparison verifies. ``global_vector`` is made of invariants (token cosines and probe
second moments in both token bases, head moments), so a disguised copy stays near. ``basis_vector`` is made of linear
sketches, so it is sharper where nothing was disguised, and works on the generic path.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fingerprint.architecture.interface import Role, Slot
from fingerprint.fingerprint import IDS, STRINGS, LayerInvariants, SlotSketch, TokenCosines
from fingerprint.sketch import keyed
from fingerprint.sketch.linear import shrink
from fingerprint.sketch.statistics import quantiles

PART = 96
"""Length of a projected part; must be a multiple of 32."""
HEAD_PART = 128
PROBES = 32
BUCKETS = (Role.QUERY, Role.KEY, Role.VALUE, Role.OUT, Role.UP, Role.DOWN, Role.EMBED)
SIDE = 8
_HEAD_WEIGHT = 0.5


def global_vector(layers: Mapping[int, LayerInvariants], tokens: Mapping[str, TokenCosines], key: bytes) -> np.ndarray:
    """Invariant summary, float16 (512,), unit length (zeros when there are no invariants)."""
    parts = [_token_part(tokens.get(basis)) for basis in (STRINGS, IDS)]
    parts += [_probe_part(layers, basis, key) for basis in (STRINGS, IDS)]
    return _unit(np.concatenate([*parts, _HEAD_WEIGHT * _head_part(layers)])).astype(np.float16)


def basis_vector(slots: Mapping[Slot, SlotSketch]) -> np.ndarray:
    """Leading sketch blocks summed over layers, float16 (448,), unit length.

    On the generic path tensors fall into buckets by shape, never by name.
    """
    sums = np.zeros((len(BUCKETS), SIDE, SIDE))
    for slot, sketch in slots.items():
        if sketch.linear.ndim != 2 or sketch.norm <= 0:
            continue
        role = Role.UP if slot.role is Role.GATE else slot.role
        bucket = BUCKETS.index(role) if role in BUCKETS else sum(sketch.shape) % len(BUCKETS)
        sums[bucket] += shrink(sketch.linear, (SIDE, SIDE)) / sketch.norm
    return _unit(np.concatenate([_unit(part.reshape(-1)) for part in sums])).astype(np.float16)


def _token_part(tokens: TokenCosines | None) -> np.ndarray:
    """Centred cosines of token pairs, projected by signs that depend on the pair's hashes alone."""
    if tokens is None or tokens.ids.size < 3:
        return np.zeros(PART)
    first, second = np.triu_indices(tokens.ids.size, k=1)
    values = tokens.embed.astype(np.float64)[first, second]
    with np.errstate(over="ignore"):
        pairs = tokens.hashes[first] + tokens.hashes[second]
    return _unit((values - values.mean()) @ _pair_signs(pairs))


def _pair_signs(words: np.ndarray) -> np.ndarray:
    halves = [keyed.signs(keyed.mix(words, salt), 32) for salt in range(PART // 32)]
    return np.concatenate(halves, axis=1).astype(np.float64)


def _probe_part(layers: Mapping[int, LayerInvariants], basis: str, key: bytes) -> np.ndarray:
    """Second moments of gate probes over chosen units, off the diagonal, projected."""
    total = np.zeros((PROBES, PROBES))
    for layer in layers.values():
        if layer.units is not None and basis in layer.units.gate and layer.units.index.size:
            rows = layer.units.directions(basis)[:, :PROBES].astype(np.float64)
            total += rows.T @ rows / rows.shape[0]
    values = total[np.triu_indices(PROBES, k=1)]
    return _unit(values @ _pair_signs(keyed.words(key, "summary/probe", 0, values.size)))


def _head_part(layers: Mapping[int, LayerInvariants]) -> np.ndarray:
    """Quantiles over all heads of each normalised moment, and of the units' choosing cosines."""
    vector = np.zeros(HEAD_PART)
    heads = [layer.heads for layer in layers.values() if layer.heads is not None]
    columns = []
    for moments in ([h.value_output for h in heads], [h.query_key for h in heads]):
        pooled = np.concatenate(moments) if moments else np.zeros((0, 6))
        columns += [quantiles(pooled[:, order]) for order in range(6)]
    spreads = [layer.units.spread for layer in layers.values() if layer.units is not None]
    columns.append(np.mean(spreads, axis=0) if spreads else np.zeros(9))
    filled = np.concatenate(columns)
    vector[: filled.size] = filled
    return _unit(vector)


def _unit(vector: np.ndarray) -> np.ndarray:
    norm = float(np.linalg.norm(vector))
    return vector / norm if np.isfinite(norm) and norm > 0 else np.zeros_like(vector)
