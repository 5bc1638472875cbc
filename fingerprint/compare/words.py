"""Words of the contract for what was found: transforms, what is shared, and the rows of the report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from fingerprint.compare.evidence import Evidence, SlotChange
from fingerprint.compare.learning import total
from fingerprint.compare.relation import Depth, LayerEvidence

SCALED = 2e-3
"""Smallest common factor that is called scaling; weight decay of an honest run stays below it or is not alone."""


def change_names(evidence: Evidence) -> list[str]:
    """Contract words for what was done, most of the parameters first."""
    live = [c for c in evidence.changes if c.relative > 0.0] or [c for c in evidence.stacks if c.relative > 0.0]
    if not live:
        return []
    names: list[str] = []
    kinds = Counter[str]()
    for c in live:
        if c.kind:
            kinds[c.kind.split(":")[0]] += c.numel
    size = sum(c.numel for c in live)
    for kind, count in kinds.most_common(1):
        if count >= 0.3 * size:
            names.append(_kind_name(kind, live))
    scale = _median([c.scale for c in live])
    base = _median([c.toward_base for c in live])
    if abs(base) > 0.01 and evidence.base is not None:
        names.append(f"interpolated:{-base:.2g}" if base < 0 else f"amplified:{1 + base:.3g}")
    elif abs(scale) > SCALED and not kinds:
        names.append(f"scaled:{1 + scale:.4g}")
    left = total(live)
    changed = _median([c.changed for c in live])
    rank = _median([c.rank for c in live])
    if not names and left > 0.0:
        if rank <= 0.17:
            names.append(f"adapter:random:{_rank_number(live)}")
        elif changed < 0.15 and evidence.exact_gauge and evidence.depth is Depth.FULL:
            names.append(f"sparse-noise:{changed:.2g}")
        elif not all(c.still for c in live):
            names.append(f"noise:{left:.2g}")
    return names


def _rank_number(live: Sequence[SlotChange]) -> int:
    return max(1, round(_median([c.rank * math.sqrt(c.numel) for c in live])))


def _kind_name(kind: str, live: Sequence[SlotChange]) -> str:
    """The commonest full name of ``kind``; pruned fractions are averaged."""
    full = [c for c in live if c.kind and c.kind.split(":")[0] == kind]
    if kind == "pruned":
        mean = sum(float(str(c.kind).split(":")[1]) * c.numel for c in full) / sum(c.numel for c in full)
        return f"pruned:{mean:.2g}"
    return Counter(str(c.kind) for c in full).most_common(1)[0][0]


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else 0.0


def shared_names(evidence: Evidence, limit: int = 6) -> str:
    """What is shared, in words: layers as a range count, the rest by role or tensor name."""
    loose = [c.slot.name or c.slot.role.value for c in evidence.changes if c.slot.layer < 0]
    layers = sorted({c.slot.layer for c in evidence.changes if c.slot.layer >= 0})
    parts = loose[:limit] + ([f"layers {', '.join(map(str, layers))}"] if layers else [])
    return ", ".join(parts) or "nothing"


def per_layer(evidence: Evidence) -> tuple[LayerEvidence, ...]:
    """Similarity, delta and explained fraction of each layer and of each group outside the layers."""
    groups: dict[str, list[SlotChange]] = {}
    lost: Counter[str] = Counter()
    for c in evidence.changes:
        groups.setdefault(_group(c), []).append(c)
    for slot, count in evidence.unmatched:
        lost[str(slot.layer) if slot.layer >= 0 else slot.name or slot.role.value] += count
    rows = []
    for name in sorted({*groups, *lost}, key=_order):
        members = groups.get(name, [])
        size = sum(c.numel for c in members)
        rows.append(
            LayerEvidence(
                name,
                sum(c.similarity * c.numel for c in members) / size if size else 0.0,
                math.sqrt(sum(c.relative**2 * c.numel for c in members) / size) if size else 1.0,
                size / (size + lost[name]) if size + lost[name] else 0.0,
            )
        )
    return tuple(rows)


def _group(change: SlotChange) -> str:
    return str(change.slot.layer) if change.slot.layer >= 0 else change.slot.name or change.slot.role.value


def _order(name: str) -> tuple[int, int, str]:
    """Embeddings first, then layers by number, then the rest."""
    if name.isdigit():
        return (1, int(name), name)
    return (0 if name.startswith(("embed", "position", "token")) else 2, 0, name)
