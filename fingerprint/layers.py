"""One layer of a transformer, read in the order that lets every invariant be taken in the same pass.

Value rows are kept while output rows stream by; up rows and down columns are gathered for the units that the gate rows
have chosen. Whatever a layer does not have is skipped, and every slot is sketched whether or not an
invariant wants it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from fingerprint.architecture import values
from fingerprint.architecture.interface import Layout, Role, Slot, View
from fingerprint.fingerprint import HeadInvariants
from fingerprint.invariants import heads, units
from fingerprint.invariants.folding import Folding, folding
from fingerprint.invariants.spans import SPANNED, Frame, Spans, kinds_of
from fingerprint.plan import MAX_HEAD_DIM, MAX_HELD, MAX_WIDTH, Plan
from fingerprint.streaming import SlotReader

CLEAR_GAIN = 0.7
"""Correlation of a gain with column norms from which it is the reader's: trained gains reach .3 to .7, made-up ones,
which their readers undo, nearly 1."""

INVARIANT_FAMILIES = frozenset({"decoder", "gpt2", "neox", "bert"})


@dataclass
class LayerDraft:
    """Invariants of a layer before the token probes are known."""

    heads: HeadInvariants | None = None
    spans: dict[Role, dict[str, np.ndarray]] = field(default_factory=dict)
    units: list[units.UnitVectors] = field(default_factory=list)


class LayerScan:
    """Reads all slots of one layer.

    Args:
        reader: Sketches what it streams.
        layout: Family and sizes.
        plan: Units to keep.
        slots: The layer's slots.
        frame: From where attention's spans are looked at; None without token probes.
    """

    def __init__(
        self, reader: SlotReader, layout: Layout, plan: Plan, slots: Mapping[Slot, View], frame: Frame | None
    ) -> None:
        self._reader, self._layout, self._plan, self._frame = reader, layout, plan, frame
        self._spans: dict[Role, Spans] = {}
        self._left = dict(slots)
        self._layer = next(iter(slots)).layer if slots else -1

    def run(self) -> LayerDraft:
        """Read everything."""
        draft = LayerDraft()
        for slot in sorted(s for s in self._left if len(self._left[s].shape) < 2):
            self._reader.consume(slot, self._left.pop(slot))
        if self._layout.family in INVARIANT_FAMILIES:
            draft.heads = heads.invariants(self._value_output(), self._query_key())
            draft.units = self._units()
            draft.spans = {role: found.value for role, found in sorted(self._spans.items())}
        for slot in sorted(self._left):
            self._reader.consume(slot, self._left[slot])
        return draft

    def _value_output(self) -> torch.Tensor | None:
        value, out = Slot(Role.VALUE, self._layer), Slot(Role.OUT, self._layer)
        dims = self._layout.dims
        if value not in self._left or out not in self._left or not dims.heads or not dims.kv_heads:
            return None
        (rows, width), (height, columns) = self._left[value].shape, self._left[out].shape
        grouped = dims.heads % dims.kv_heads == 0 and rows % dims.kv_heads == 0
        if not grouped or height != width or rows // dims.kv_heads * dims.heads != columns:
            return None
        if max(width, columns) > MAX_WIDTH or rows // dims.kv_heads > MAX_HEAD_DIM or rows * width > MAX_HELD:
            return None
        fold = self._folding(Role.NORM_ATTENTION, width)
        folded = torch.cat([fold.reader(block).clone() for block in self._take(value)])
        products = heads.ValueOutput(folded, dims.heads, dims.kv_heads)
        for block in self._take(out):
            products.update(block)
        return products.matrices

    def _query_key(self) -> torch.Tensor | None:
        query, key = Slot(Role.QUERY, self._layer), Slot(Role.KEY, self._layer)
        dims = self._layout.dims
        if query not in self._left or key not in self._left or not dims.heads or not dims.kv_heads:
            return None
        (many, width), (few, same) = self._left[query].shape, self._left[key].shape
        size = many // dims.heads
        if width != same or dims.heads % dims.kv_heads or size * dims.heads != many or size * dims.kv_heads != few:
            return None
        if width > MAX_WIDTH or size > MAX_HEAD_DIM or few * width > MAX_HELD:
            return None
        fold = self._folding(Role.NORM_ATTENTION, width)
        folded = torch.cat([fold.both(block).clone() for block in self._take(key)])
        gains = [self._head_gain(norm, size) for norm in (Role.QUERY_NORM, Role.KEY_NORM)]
        products = heads.QueryKey(folded, dims.heads, dims.kv_heads)
        for block in self._take(query):
            products.update(block)
        query_gain, key_gain = (torch.ones(size) if gain is None else gain for gain in gains)
        return products.matrices * key_gain[:, None] * query_gain[None, :]

    def _units(self) -> list[units.UnitVectors]:
        experts = sorted({slot.expert for slot in self._left if slot.role is Role.UP})
        parts: list[units.UnitVectors] = []
        for expert in experts:
            found = self._expert(expert)
            if found is not None:
                parts = units.pool([*parts, found], self._plan.units)
        return parts

    def _expert(self, expert: int) -> units.UnitVectors | None:
        gate, up, down = (Slot(role, self._layer, expert) for role in (Role.GATE, Role.UP, Role.DOWN))
        shapes = {slot: self._left[slot].shape for slot in (gate, up, down) if slot in self._left}
        if up not in shapes or down not in shapes or shapes[up] != shapes[down][::-1] or max(shapes[up]) > MAX_WIDTH:
            return None
        fold = self._folding(Role.NORM_MLP, shapes[up][1])
        if shapes.get(gate, shapes[up]) != shapes[up] or (self._layout.gated and gate not in shapes):
            return None
        lead = gate if gate in shapes else up
        chooser = units.UnitChooser(fold, self._plan.units, shapes[up][1], expert)
        for block in self._take(lead):
            chooser.update(block)
        chosen = chooser.chosen
        rows = None
        if lead is gate:
            picker = units.RowPicker(fold, chosen.index, shapes[up][1])
            for block in self._take(up):
                picker.update(block)
            rows = picker.value
        index = torch.from_numpy(chosen.index)
        columns = torch.cat([block[:, index] for block in self._take(down)])
        return units.UnitVectors(chosen, rows, fold.writer(columns.T))

    def _take(self, slot: Slot) -> Iterator[torch.Tensor]:
        """Blocks of a slot, of whole heads in attention, whose spans are taken in passing."""
        view, dims = self._left.pop(slot), self._layout.dims
        heads = dims.kv_heads if slot.role in (Role.KEY, Role.VALUE) else dims.heads
        if slot.role not in SPANNED:
            return self._reader.stream(slot, view)
        blocks = self._reader.stream(slot, view, multiple=max(1, view.shape[0] // heads))
        if self._frame is None or self._frame.probes.shape[0] != view.shape[slot.role is not Role.OUT]:
            return blocks
        rotary = self._layout.rotary_dim == dims.head_dim > 1
        kinds = kinds_of(slot.role, view.shape, rotary=rotary, doubtful=bool(self._layout.ambiguous))
        spans = Spans(self._frame, self._attention_folding(view, self._frame), view.shape, heads, kinds)
        self._spans[slot.role] = spans
        return spans.watch(blocks)

    def _attention_folding(self, view: View, frame: Frame) -> Folding:
        """The folding of a reader; where layers were guessed, with the gain its columns go by, if that is clear."""
        fold = self._folding(Role.NORM_ATTENTION, frame.probes.shape[0])
        if not frame.gains or view.shape[1] != frame.probes.shape[0]:
            return fold
        norms = values.column_norms(self._reader.checkpoint, view)
        likeness = [values.moves_with(gain, norms) for gain in frame.gains]
        best = int(np.argmax(likeness))
        return replace(fold, gain=frame.gains[best]) if likeness[best] >= CLEAR_GAIN else fold

    def _folding(self, norm: Role, width: int) -> Folding:
        return folding(self._layout, self._reader.findings.vectors.get(Slot(norm, self._layer)), width)

    def _head_gain(self, norm: Role, size: int) -> torch.Tensor | None:
        gain: np.ndarray | None = self._reader.findings.vectors.get(Slot(norm, self._layer))
        if gain is None or gain.shape != (size,):
            return None
        offset = 1.0 if self._layout.norm.value == "rms_offset" else 0.0
        return torch.from_numpy(gain + np.float32(offset))
