"""A checkpoint in, a Fingerprint out: one streaming pass on a few threads.

Work is cut into jobs (a layer, or a tensor outside the layers) that own the digests of their tensors; each runs on one
thread, largest first, layers after what lies outside them: attention is looked at from the token probes. Nothing
depends on which thread runs what or when: signs come from keyed hashes, and sums run in storage order inside a job.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fingerprint.architecture import recognise
from fingerprint.architecture.interface import Layout, Role, Slot, View
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.content import length_prefixed
from fingerprint.fingerprint import STRINGS, Fingerprint, LayerInvariants, Meta, SlotSketch, TokenCosines
from fingerprint.invariants import embeddings, probes, spans, summary, units
from fingerprint.invariants.folding import Folding, folding, gains
from fingerprint.invariants.spans import Frame
from fingerprint.layers import INVARIANT_FAMILIES, LayerDraft, LayerScan
from fingerprint.plan import ALGORITHM, MAX_ROWS, MAX_WIDTH, Plan, make_plan, numel
from fingerprint.sketch import keyed
from fingerprint.sketch.grid import Grids
from fingerprint.sketch.keyed import DEFAULT_KEY
from fingerprint.sketch.linear import Projection
from fingerprint.streaming import Findings, Shared, SlotReader

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all, from any thread, never two at once."""

THREADS = 2


@dataclass(frozen=True)
class _Job:
    """One unit of work: some slots of one layer (or outside the layers), and the tensors it must digest."""

    slots: Mapping[Slot, View]
    owned: frozenset[str]
    size: int

    @property
    def inside(self) -> bool:
        """Whether it is a layer."""
        return any(slot.layer >= 0 for slot in self.slots)


@dataclass
class _Result:
    findings: Findings = field(default_factory=Findings)
    layer: LayerDraft | None = None
    embed_rows: dict[str, torch.Tensor] = field(default_factory=dict)
    head_rows: dict[str, torch.Tensor] = field(default_factory=dict)
    probes: dict[str, torch.Tensor] = field(default_factory=dict)


def scan(
    checkpoint: Checkpoint,
    *,
    key: bytes = DEFAULT_KEY,
    layout: Layout | None = None,
    plan: Plan | None = None,
    threads: int = THREADS,
    progress: Progress | None = None,
) -> Fingerprint:
    """Fingerprint a checkpoint.

    Args:
        checkpoint: Opened checkpoint; it is read once, in row blocks.
        key: Sketch key; only fingerprints of one key compare.
        layout: What the tensors are; recognised when not given.
        plan: Sizes; those that the shapes ask for when not given. Others are for calibrating what larger models get.
        threads: Threads that jobs run on; does not change the result.
        progress: Told of bytes done.

    Raises:
        CheckpointError: The files turn out to be damaged while they are read.
    """
    layout = recognise(checkpoint) if layout is None else layout
    work = _Scan(checkpoint, layout, plan or make_plan(checkpoint, layout), key, progress)
    jobs = sorted(_jobs(checkpoint, layout), key=lambda job: -job.size)
    with (
        _one_torch_thread(),
        ThreadPoolExecutor(max_workers=threads, initializer=torch.set_num_threads, initargs=(1,)) as pool,
    ):
        outside = list(pool.map(work.run, [job for job in jobs if not job.inside]))
        work.look_from(outside)
        inside = list(pool.map(work.run, [job for job in jobs if job.inside]))
    return work.assemble([*outside, *inside])


class _Scan:
    """What all jobs of one scan share."""

    def __init__(
        self, checkpoint: Checkpoint, layout: Layout, plan: Plan, key: bytes, progress: Progress | None
    ) -> None:
        self._checkpoint, self._layout, self._plan, self._key = checkpoint, layout, plan, key
        self._shared = Shared(
            key, Projection(key, self._plan.side), Grids(key, self._plan.grid), gains(checkpoint, layout)
        )
        self._strings = checkpoint.token_strings()
        embed = layout.slots.get(Slot(Role.EMBED)) if layout.family in INVARIANT_FAMILIES else None
        fits = embed is not None and len(embed.shape) == 2 and _fits(embed.shape)
        rows = embed.shape[0] if embed is not None and fits else 0
        self._words = probes.token_words(key, rows, self._strings) if rows else {}
        self._real = {STRINGS: len(self._strings)} if self._strings else {}
        self._ids = {basis: embeddings.choose(w[: self._real.get(basis, w.size)]) for basis, w in self._words.items()}
        self._progress, self._lock, self._done = progress, threading.Lock(), 0
        self._total = sum(info.numel * info.dtype.itemsize for info in checkpoint.tensors.values())
        self._frame: Frame | None = None

    def look_from(self, results: Sequence[_Result]) -> None:
        """Sets where attention is looked at from: the token probes, once the embedding was read."""
        drawn = next((result.probes for result in results if result.probes), {})
        if drawn:
            found = [gain for slot, gain in self._shared.gains.items() if slot.role in (Role.VALUE, Role.UP)]
            found = found if self._layout.ambiguous else []
            self._frame = Frame(spans.scaled(next(iter(drawn.values())), self._plan.spans), self._key, found)

    def run(self, job: _Job) -> _Result:
        """Do one job; called from any thread."""
        reader = SlotReader(self._checkpoint, self._plan, self._shared, job.owned)
        result = _Result(reader.findings)
        if job.inside:
            result.layer = LayerScan(reader, self._layout, self._plan, job.slots, self._frame).run()
        else:
            for slot in sorted(job.slots):
                self._outside(reader, slot, job.slots[slot], result)
        for name in sorted(job.owned):
            reader.digest(name)
        self._report(job.size)
        return result

    def _outside(self, reader: SlotReader, slot: Slot, view: View, result: _Result) -> None:
        """A slot outside the layers; embeddings and heads also give probes and token rows."""
        vocabulary = len(next(iter(self._words.values()))) if self._words else 0
        if slot.role not in (Role.EMBED, Role.HEAD) or view.shape != (vocabulary, self._width):
            reader.consume(slot, view)
            return
        rows = {basis: embeddings.TokenRows(ids, view.shape[1]) for basis, ids in self._ids.items()}
        drawn = None
        if slot.role is Role.EMBED:
            drawn = probes.Probes(self._words, self._plan.probes, view.shape[1], self._real)
        fold = folding(self._layout, None, view.shape[1])
        for block in reader.stream(slot, view):
            for collector in rows.values():
                collector.update(block)
            if drawn is not None:
                drawn.update(block, fold)
        collected = {basis: collector.value for basis, collector in rows.items()}
        if drawn is not None:
            result.embed_rows, result.probes = collected, drawn.value
        else:
            result.head_rows = collected

    def _report(self, size: int) -> None:
        if self._progress is not None:
            with self._lock:
                self._done = min(self._total, self._done + size)
                self._progress(self._done, self._total)

    def assemble(self, results: Sequence[_Result]) -> Fingerprint:
        """Put the parts together, in an order that no thread can change."""
        findings = [result.findings for result in results]
        slots = {slot: sketch for part in findings for slot, sketch in part.slots.items()}
        tensors = {name: entry for part in findings for name, entry in part.tensors.items()}
        vectors = {slot: values for part in findings for slot, values in part.vectors.items()}
        drawn = next((result.probes for result in results if result.probes), {})
        layers = self._layers(results, drawn)
        tokens = self._tokens(results, folding(self._layout, vectors.get(Slot(Role.FINAL_NORM)), self._width))
        slots = dict(sorted(slots.items()))
        return Fingerprint(
            meta=_meta(self._checkpoint, self._layout, self._key, self._strings, tuple(self._words)),
            tensors=tuple(tensors[name] for name in sorted(tensors)),
            slots=slots,
            layers=layers,
            tokens=tokens,
            grid_index=_grid_index(slots, self._shared.grids),
            probe_gram={basis: (p.double().T @ p.double()).float().numpy() for basis, p in drawn.items()},
            global_vector=summary.global_vector(layers, tokens, self._key),
            basis_vector=summary.basis_vector(slots),
        )

    @property
    def _width(self) -> int:
        view = self._layout.slots.get(Slot(Role.EMBED))
        return view.shape[-1] if view is not None and view.shape else 0

    def _layers(self, results: Sequence[_Result], drawn: dict[str, torch.Tensor]) -> dict[int, LayerInvariants]:
        layers = {}
        for result in results:
            if result.layer is None or not (result.layer.heads or result.layer.units):
                continue
            index = next(slot.layer for slot in result.findings.slots)
            parts = [part for part in result.layer.units if part.units.index.size]
            fitting = bool(parts) and all(p.shape[0] == parts[0].down.shape[1] for p in drawn.values())
            gain = next((self._shared.gains.get(s) for s in result.findings.slots if s.role is Role.UP), None)
            probed = drawn if fitting else {}
            found = units.invariants(parts, probed, self._plan.gram, gain) if parts else None
            layers[index] = LayerInvariants(found, result.layer.heads, result.layer.spans)
        return dict(sorted(layers.items()))

    def _tokens(self, results: Sequence[_Result], final: Folding) -> dict[str, TokenCosines]:
        embed = next((result.embed_rows for result in results if result.embed_rows), {})
        head = next((result.head_rows for result in results if result.head_rows), {})
        inner = folding(self._layout, None, self._width)
        return {
            basis: embeddings.invariants(
                self._ids[basis], self._words[basis], rows, head.get(basis), inner=inner, final=final
            )
            for basis, rows in embed.items()
        }


def _jobs(checkpoint: Checkpoint, layout: Layout) -> Iterator[_Job]:
    """Layers as one job each, everything else slot by slot; every tensor is owned by exactly one job."""
    groups: dict[tuple[Any, ...], dict[Slot, View]] = {}
    for slot, view in sorted(layout.slots.items()):
        groups.setdefault((slot.layer,) if slot.layer >= 0 else (-1, slot), {})[slot] = view
    taken: set[str] = set()
    for slots in groups.values():
        owned = {view.tensor for view in slots.values()} - taken
        taken |= owned
        yield _Job(slots, frozenset(owned), _bytes(checkpoint, owned))
    for name in sorted(set(checkpoint.tensors) - taken):
        yield _Job({}, frozenset({name}), _bytes(checkpoint, {name}))


def _grid_index(slots: Mapping[Slot, SlotSketch], grids: Grids) -> dict[int, np.ndarray]:
    """Indices of every side length that some grid has."""
    lengths = {n for s in slots.values() if s.grid is not None for n in (s.shape[0], max(1, numel(s.shape[1:])))}
    return {n: grids.indices(n).astype(np.int32) for n in sorted(lengths)}


def _bytes(checkpoint: Checkpoint, names: set[str]) -> int:
    return sum(checkpoint.tensors[name].numel * checkpoint.tensors[name].dtype.itemsize for name in names)


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Parallelism is over tensors; torch's own would fight with it, and would change sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _meta(
    checkpoint: Checkpoint, layout: Layout, key: bytes, strings: tuple[str, ...] | None, bases: tuple[str, ...]
) -> Meta:
    return Meta(
        algorithm=ALGORITHM,
        key_id=keyed.key_id(key),
        format=checkpoint.format,
        family=layout.family,
        dims=layout.dims,
        norm=layout.norm.value,
        positions=layout.positions.value,
        pre_norm=layout.pre_norm,
        gated=layout.gated,
        tied=layout.tied,
        source=layout.source,
        ambiguous=layout.ambiguous,
        notes=layout.notes,
        transforms=tuple(checkpoint.notes),
        parameters=sum(info.numel for info in checkpoint.tensors.values()),
        files=tuple((file.name, file.size) for file in checkpoint.files),
        config=_config_digest(checkpoint.config),
        tokenizer=_token_digest(strings),
        token_bases=bases,
    )


def _fits(shape: tuple[int, ...]) -> bool:
    return shape[0] <= MAX_ROWS and shape[1] <= MAX_WIDTH


def _config_digest(config: Mapping[str, Any]) -> str:
    if not config:
        return ""
    text = json.dumps(dict(config), sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def _token_digest(strings: tuple[str, ...] | None) -> str:
    if strings is None:
        return ""
    joined = hashlib.sha256()
    for text in strings:
        joined.update(length_prefixed(text.encode("utf-8", "surrogatepass")))
    return joined.hexdigest()


__all__ = ["DEFAULT_KEY", "Progress", "scan"]
