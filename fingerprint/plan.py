"""What a scan will spend on what, decided from shapes before a tensor is read.

A fingerprint must stay small whatever the model: sketches share one byte budget, unit and MinHash counts shrink with
depth. Budgets depend on shapes alone, so the same model always gets the same fingerprint, on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from fingerprint.architecture.interface import Layout, Role, Slot, View
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.invariants import spans
from fingerprint.sketch import grid, linear, topk

VERSION = 2
SKETCH_BYTES, SKETCH_BYTES_MANY, FEW_MATRICES = 480_000, 300_000, 64
GRID_BYTES, GRID_BYTES_MANY = 262_144, 150_000
VECTOR_BYTES = 131_072
UNITS_TOTAL, UNITS_LEAST, UNITS_MOST = 896, 16, 96
GRAM_BYTES, GRAM_PARTS = 98_304, 3
"""Half of a symmetric matrix of two-byte cosines for each of three parts: a byte an entry and part."""
POOLED_TOTAL, POOLED_MOST = 4096, 256
"""Experts of a layer are pooled and share one, larger budget."""
SPAN_BYTES = 65_536
PROBES_FEW, PROBES_MANY, PROBES_MANY_UNITS = 32, 64, 512
MINHASH_ROLES = (Role.KEY, Role.OUT)
MINHASH_GENERIC, MINHASH_LEAST_ELEMENTS = 64, 4096
BLOCK_ELEMENTS, BLOCK_ROWS = 1 << 20, 4096
"""Blocks are 4 MB in float32: they stay in the last-level cache, and the calls they take hardly count."""

MAX_WIDTH, WIDE_ROW = 1 << 18, 1 << 16
"""Longest row that is taken as it is (the widest real model has 53,248 columns). Longer ones, which only a hostile or
a flat checkpoint has, are cut into rows of WIDE_ROW, so that no buffer grows with a shape that a file claims."""
MAX_ROWS = 1 << 22
"""Most rows that are taken as they are, and most tokens (Gemma has 262,144); taller tensors are seen as one row."""
MAX_HEAD_DIM, MAX_HELD = 1024, 1 << 27
"""Bounds of what head invariants hold: the side of a head, and the elements of one value matrix."""

ALGORITHM = (
    f"fingerprint-v{VERSION}"
    ";digest=sha256-tensor-v1,value=bf16-rne,root=rfc6962"
    f";linear=bilinear-shake256-orthonormal,sides={'/'.join(map(str, linear.SIZES))}"
    f",folded,fold={linear.FOLD}/{linear.FOLD_FROM},budget={SKETCH_BYTES}/{SKETCH_BYTES_MANY}/{FEW_MATRICES}"
    f";grid=keyed,sides={'/'.join(map(str, grid.SIDES))},budget={GRID_BYTES}/{GRID_BYTES_MANY}"
    f";vectors={VECTOR_BYTES}/{linear.VECTOR_SIZE}"
    f";minhash=datasketch2-{topk.SCHEME},perms={topk.PERMUTATIONS},seed={topk.SEED},k={topk.MIN_K}-{topk.MAX_K}"
    f";units=by-norm,{UNITS_TOTAL}/{UNITS_LEAST}-{UNITS_MOST},pooled={POOLED_TOTAL}/{POOLED_MOST}"
    f",probes={PROBES_FEW}/{PROBES_MANY},density=2^-5,raw,gram={GRAM_BYTES};heads=power-sums-6:vo,kq"
    f";spans={'/'.join(map(str, spans.SIZES))},budget={SPAN_BYTES},stored={spans.STORED_WIDTH};tokens=64"
)
"""Every parameter that changes the output; files of another algorithm are refused."""


@dataclass(frozen=True)
class Plan:
    """Sizes of one scan.

    Attributes:
        side: Rows and columns of the linear sketches.
        grid: Rows and columns of the grids.
        whole_vectors: Whether vectors are kept as they are.
        units: Units kept per layer (over all experts).
        gram: Units per layer whose mutual cosines are kept.
        probes: Probes per basis.
        spans: Leading probes that attention matrices are seen from.
        minhash: Slots that get a MinHash.
    """

    side: int
    grid: int
    whole_vectors: bool
    units: int
    gram: int
    probes: int
    spans: int
    minhash: frozenset[Slot]


def make_plan(checkpoint: Checkpoint, layout: Layout) -> Plan:
    """Budgets from shapes alone."""
    floating = {s: v for s, v in layout.slots.items() if checkpoint.tensors[v.tensor].dtype.is_floating_point}
    matrices = {slot: view for slot, view in floating.items() if len(view.shape) >= 2}
    vector_bytes = sum(4 * numel(view.shape) for slot, view in floating.items() if slot not in matrices)
    layers = max(1, layout.dims.layers)
    if layout.dims.experts:
        units = max(UNITS_LEAST, min(POOLED_MOST, POOLED_TOTAL // layers))
    else:
        units = max(UNITS_LEAST, min(UNITS_MOST, UNITS_TOTAL // layers))
    few = len(matrices) <= FEW_MATRICES
    return Plan(
        side=linear.size_for(len(matrices), SKETCH_BYTES if few else SKETCH_BYTES_MANY),
        grid=grid.side(len(matrices), GRID_BYTES if few else GRID_BYTES_MANY),
        whole_vectors=vector_bytes <= VECTOR_BYTES,
        units=units,
        gram=min(units, math.isqrt(GRAM_BYTES // (GRAM_PARTS * layers))),
        probes=PROBES_MANY if units * layers <= PROBES_MANY_UNITS else PROBES_FEW,
        spans=spans.size_for(layers, SPAN_BYTES),
        minhash=_minhash_slots(matrices),
    )


def block_rows(columns: int, *, multiple: int = 1) -> int:
    """Rows of a block for rows of ``columns`` values: a multiple of ``multiple``, about BLOCK_ELEMENTS values."""
    rows = max(1, min(BLOCK_ROWS, BLOCK_ELEMENTS // max(1, columns)))
    step = math.lcm(multiple, linear.FOLD) if rows >= linear.FOLD else multiple
    return step * max(1, rows // step)


def numel(shape: tuple[int, ...]) -> int:
    """Elements of a shape."""
    count = 1
    for size in shape:
        count *= size
    return count


def _minhash_slots(matrices: Mapping[Slot, View]) -> frozenset[Slot]:
    """Two per layer where roles are known, else the largest matrices (ties by name)."""
    by_role = [slot for slot in matrices if slot.role in MINHASH_ROLES]
    if by_role:
        return frozenset(by_role)
    large = [
        (-numel(view.shape), slot) for slot, view in matrices.items() if numel(view.shape) >= MINHASH_LEAST_ELEMENTS
    ]
    return frozenset(slot for _, slot in sorted(large)[:MINHASH_GENERIC])
