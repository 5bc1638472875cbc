"""64-bit keys of a fingerprint: two models that share one may share weights.

Four kinds. *Roots* and *tensor digests* are exact. *Bands* of sign bits and of MinHash values (LSH: Indyk and Motwani
1998; banding as in Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3) survive noise. *Codes* of
heads and MLP units are quantised symmetry invariants and survive rotations and permutations (2-weights, section 4).

Keys carry shapes, never names, roles or layer numbers, all of which a copier chooses. The number of keys a model gets
is bounded, so they are spread evenly over its layers, and a model whose layers are too many gets fewer of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from fingerprint.fingerprint import Fingerprint, HeadInvariants, SlotSketch, TensorEntry, UnitInvariants

T = TypeVar("T")


class Kind(IntEnum):
    """What a shared key means, weakest first."""

    MINHASH = 1
    SIGN = 2
    UNIT = 3
    HEAD = 4
    TENSOR = 5
    ROOT = 6


@dataclass(frozen=True)
class Keys:
    """Keys by kind.

    Attributes:
        stored: What the index keeps for the model, signed 64-bit.
        probes: What a query looks up: ``stored``, and neighbours of codes that lie near a boundary.
    """

    stored: dict[int, Kind]
    probes: dict[int, Kind]


TENSOR_BUDGET, MULTISET_BUDGET = 96, 64  # digests; a graft of a tenth of the tensors shares about a tenth of them
TENSOR_LEAST = 256  # elements; smaller ones (a norm of ones) are equal by chance
SLOT_BUDGET = 48  # matrices that get sign bands
SIGN_BANDS = 10  # per matrix: nearly all of 256 bits when there are few matrices
SIGN_TOTAL = 480  # over all matrices, so that a deep model does not drown the index
BAND_BYTES = 3  # 24 bits: survive 10% noise with probability .46, 30% with .10; 16 bits collide too often by chance
MINHASH_SLOTS, MINHASH_ROWS = 8, 4  # 16 bands of 4: found with probability 1 at J = .8, .67 at J = .5
HEAD_BUDGET, UNIT_BUDGET = 64, 96
HEAD_STEP = 0.08  # of a normalised power sum in [-1, 1]
UNIT_STEP = 0.12  # of a cosine times sqrt(d), which has unit spread
BOUNDARY = 0.15  # of a step: a coordinate nearer than this to a boundary is also looked up beyond it
MATRIX_LEAST = 4096  # elements; below this a sketch holds as much noise of chance as signal


def keys(fingerprint: Fingerprint) -> Keys:
    """All keys of a fingerprint. Pure; about ten milliseconds for a model of 32 layers."""
    exact = {**_tensors(fingerprint.tensors), **_roots(fingerprint)}
    space = space_of(fingerprint).encode()
    matrices = [s for s in fingerprint.slots.values() if len(s.shape) == 2 and s.numel >= MATRIX_LEAST and s.norm > 0]
    bands = {**_minhash_bands(matrices, space), **_sign_bands(matrices, space)}
    stored, probes = _codes(fingerprint, space)
    return Keys(stored={**stored, **bands, **exact}, probes={**probes, **stored, **bands, **exact})


def space_of(fingerprint: Fingerprint) -> str:
    """Names what sketches are compared within: algorithm and key. Exact digests compare across all of them."""
    return f"{fingerprint.meta.key_id}-{hashlib.sha256(fingerprint.algorithm.encode()).hexdigest()[:8]}"


def _roots(fingerprint: Fingerprint) -> dict[int, Kind]:
    roots = {
        "content": fingerprint.content_root,
        "nameless": fingerprint.nameless_root,
        "value": fingerprint.value_root,
        "nameless-value": fingerprint.nameless_value_root,
    }
    return {key: Kind.ROOT for name, root in roots.items() for key in _series([root.encode()], name.encode())}


def _tensors(tensors: Sequence[TensorEntry]) -> dict[int, Kind]:
    """The smallest digests of each sort (a bottom-k sketch): models that share tensors choose the same ones."""
    large = [t for t in tensors if t.numel >= TENSOR_LEAST]
    values = sorted({t.value for t in large})[:TENSOR_BUDGET]
    multisets = sorted({t.multiset for t in large if t.multiset})[:MULTISET_BUDGET]
    found = _series([value.encode() for value in values], b"tensor")
    found += _series([value.encode() for value in multisets], b"multiset")
    return dict.fromkeys(found, Kind.TENSOR)


def _sign_bands(matrices: Sequence[SlotSketch], space: bytes) -> dict[int, Kind]:
    chosen = spread(matrices, SLOT_BUDGET)
    each = min(SIGN_BANDS, max(4, SIGN_TOTAL // max(1, len(chosen))))
    found = {}
    for slot in chosen:
        signs = slot.signs.tobytes()
        bands = range(min(each, len(signs) // BAND_BYTES))
        parts = [bytes([band]) + signs[band * BAND_BYTES : (band + 1) * BAND_BYTES] for band in bands]
        found.update(dict.fromkeys(_series(parts, b"sign", space, _shape(slot.shape)), Kind.SIGN))
    return found


def _minhash_bands(matrices: Sequence[SlotSketch], space: bytes) -> dict[int, Kind]:
    found = {}
    for slot in spread([m for m in matrices if m.minhash is not None], MINHASH_SLOTS):
        values = np.asarray(slot.minhash, dtype="<u4").tobytes()
        size = 4 * MINHASH_ROWS
        parts = [bytes([band]) + values[band * size : (band + 1) * size] for band in range(len(values) // size)]
        found.update(dict.fromkeys(_series(parts, b"minhash", space, _shape(slot.shape)), Kind.MINHASH))
    return found


def _codes(fingerprint: Fingerprint, space: bytes) -> tuple[dict[int, Kind], dict[int, Kind]]:
    layers = list(fingerprint.layers.values())
    heads = [layer.heads for layer in layers if layer.heads is not None]
    units = [layer.units for layer in layers if layer.units is not None]
    stored: dict[int, Kind] = {}
    probes: dict[int, Kind] = {}
    width = space + fingerprint.meta.dims.hidden.to_bytes(8, "little", signed=True)
    for tag, kind, rows, step in (
        (b"unit" + width, Kind.UNIT, _unit_rows(units), UNIT_STEP),
        (b"head" + width, Kind.HEAD, _head_rows(heads), HEAD_STEP),
    ):
        for cells in _cells(rows, step):
            found = _series([cell.astype("<i2").tobytes() for cell in cells], tag)
            stored[found[0]] = kind
            probes.update(dict.fromkeys(found[1:], kind))
    return stored, probes


def _head_rows(layers: Sequence[HeadInvariants]) -> np.ndarray:
    """(n, 6) power sums; the first is left to the scale, and heads without a piece are left out."""
    rows = [part for heads in layers for part in (heads.value_output, heads.query_key) if len(part)]
    return _budgeted(rows, HEAD_BUDGET, columns=6)


def _unit_rows(layers: Sequence[UnitInvariants]) -> np.ndarray:
    """(n, 3) triples of the units that stand out most."""
    return _budgeted([units.triples for units in layers if len(units.triples)], UNIT_BUDGET, columns=3)


def _budgeted(parts: Sequence[np.ndarray], budget: int, *, columns: int) -> np.ndarray:
    chosen = spread(parts, budget)
    each = max(1, budget // max(1, len(chosen)))
    rows = [np.asarray(part[:each], dtype=np.float64) for part in chosen]
    found = np.concatenate(rows) if rows else np.zeros((0, columns))
    return found[np.isfinite(found).all(axis=1)]


def _cells(rows: np.ndarray, step: float) -> Iterator[list[np.ndarray]]:
    """Per row its cell, then the cells beyond each boundary that is close (one coordinate at a time)."""
    limit = np.iinfo(np.int16).max - 1
    scaled = np.clip(rows / step, -limit, limit)
    floors = np.floor(scaled)
    inside = scaled - floors
    for floor, fraction in zip(floors, inside, strict=True):
        cells = [floor]
        for i in range(len(floor)):
            if min(fraction[i], 1 - fraction[i]) < BOUNDARY:
                beyond = floor.copy()
                beyond[i] += -1 if fraction[i] < 0.5 else 1
                cells.append(beyond)
        yield cells


def spread(items: Sequence[T], budget: int) -> list[T]:
    """At most ``budget`` of ``items``, evenly spread, the first and last among them."""
    if len(items) <= budget:
        return list(items)
    return [items[i] for i in np.linspace(0, len(items) - 1, budget).round().astype(int)]


def _shape(shape: Iterable[int]) -> bytes:
    return ",".join(map(str, shape)).encode()


def _series(lasts: Iterable[bytes], *firsts: bytes) -> list[int]:
    """Keys that share their first parts: first eight bytes of BLAKE2b over the length-prefixed parts, signed."""
    start = hashlib.blake2b(b"".join(len(part).to_bytes(4, "little") + part for part in firsts), digest_size=8)
    found = []
    for last in lasts:
        state = start.copy()
        state.update(last)
        found.append(int.from_bytes(state.digest(), "little", signed=True))
    return found
