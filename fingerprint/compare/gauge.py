"""What was done to norms, scales and depth: the changes of gauge that fingerprints undo without any fitting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare.correspond import Pair
from fingerprint.compare.evidence import SlotChange
from fingerprint.fingerprint import Fingerprint
from fingerprint.invariants.folding import NORM_BEFORE

WRITERS = (Role.OUT, Role.DOWN)
STREAM_WRITERS = (Role.EMBED, Role.POSITION, *WRITERS)

FLAT = 0.02
"""Relative spread of a gain that was folded away."""

COMMON_SCALE = 0.01
"""Writers of the stream that were scaled together agree in their factor this well."""


def identity_layers(fingerprint: Fingerprint) -> set[int]:
    """Layers that write nothing to the stream."""
    layers = {s.layer for s in fingerprint.slots if s.layer >= 0}
    return {
        n
        for n in layers
        if (writers := [k for s, k in fingerprint.slots.items() if s.layer == n and s.role in WRITERS])
        and all(k.norm == 0.0 for k in writers)
    }


def without(fingerprint: Fingerprint, layers: set[int]) -> Fingerprint:
    """The fingerprint less some layers."""
    if not layers:
        return fingerprint
    return replace(
        fingerprint,
        slots={s: k for s, k in fingerprint.slots.items() if s.layer not in layers},
        layers={n: x for n, x in fingerprint.layers.items() if n not in layers},
    )


def norms(candidate: Fingerprint, pairs: Mapping[Slot, Pair]) -> tuple[str, ...]:
    """``folded:norms`` or ``regained:norms`` where values only agree with gains folded in or means taken out."""
    words: list[str] = []
    for pair in pairs.values():
        gain = candidate.slots[pair.candidate].gain
        if pair.centred:
            words.append("folded:norms")
        elif pair.folded and gain is not None:
            words.append("folded:norms" if float(gain.std()) <= FLAT * float(np.abs(gain).mean()) else "regained:norms")
    return tuple(dict.fromkeys(words))


def free_vectors(reference: Fingerprint, pairs: Mapping[Slot, Pair]) -> frozenset[Slot]:
    """Norms that were folded into their readers, and biases that took up theirs: judged in those readers."""
    free: set[Slot] = set()
    for slot, pair in pairs.items():
        if pair.folded and slot.role in NORM_BEFORE:
            norm = NORM_BEFORE[slot.role]
            names = [norm, Role(f"{norm.value}_bias")]
            names += [Role(f"{slot.role.value}_bias")] if slot.role in BIASED else []
            free |= {Slot(role, slot.layer, expert) for role in names for expert in (-1, slot.expert)}
        elif pair.centred:
            free |= {s for s in reference.slots if s.role in (Role.OUT_BIAS, Role.DOWN_BIAS)}
    return frozenset(free)


def scaled_vectors(reference: Fingerprint) -> frozenset[Slot]:
    """Vectors that go with the scale of the stream: what is added to it, and with a tied head the last norm."""
    roles = {Role.OUT_BIAS, Role.DOWN_BIAS}
    roles |= {Role.FINAL_NORM, Role.FINAL_NORM_BIAS} if reference.meta.tied else set()
    return frozenset(s for s in reference.slots if s.role in roles)


def shifted_biases(
    candidate: Fingerprint, reference: Fingerprint, pairs: Mapping[Slot, Pair]
) -> tuple[frozenset[Slot], list[str]]:
    """Attention biases that a copier may move: value biases put to zero and made up for after the mixing."""
    layers = {
        slot.layer
        for slot, pair in pairs.items()
        if slot.role is Role.VALUE_BIAS and reference.slots[slot].norm > 0.0 == candidate.slots[pair.candidate].norm
    }
    if not layers:
        return frozenset(), []
    roles = (Role.VALUE_BIAS, Role.KEY_BIAS, Role.OUT_BIAS)
    return frozenset(Slot(role, layer) for role in roles for layer in layers), ["shifted:biases"]


def untied(fingerprint: Fingerprint) -> Fingerprint:
    """The fingerprint with its tied head as a slot of its own, to be compared on the grid."""
    embed, head = fingerprint.slots.get(Slot(Role.EMBED)), Slot(Role.HEAD)
    if embed is None or head in fingerprint.slots or not fingerprint.meta.tied:
        return fingerprint
    norm = fingerprint.slots.get(Slot(Role.FINAL_NORM))
    gain = None
    if norm is not None and norm.whole and embed.grid is not None and norm.shape == embed.shape[1:]:
        offset = 1.0 if fingerprint.meta.norm == "rms_offset" else 0.0
        gain = (norm.linear[fingerprint.grid_index[embed.shape[1]]] + offset).astype(np.float32)
    made = replace(embed, linear=np.zeros_like(embed.linear), gain=gain)
    return replace(fingerprint, slots=dict(sorted({**fingerprint.slots, head: made}.items())))


BIASED = (Role.QUERY, Role.KEY, Role.VALUE, Role.GATE, Role.UP, Role.HEAD)


def rescaled(changes: Sequence[SlotChange], rounding: float) -> tuple[list[SlotChange], tuple[str, ...]]:
    """Takes out a common factor of everything that writes to the stream, which norms do not see.

    Args:
        changes: Of matrices.
        rounding: Relative size that storing scaled values leaves.

    Returns:
        The changes without it, and ``rescaled:residual`` where there was one.
    """
    writers = [c for c in changes if c.slot.role in STREAM_WRITERS]
    others = [c for c in changes if c.slot.role not in STREAM_WRITERS and c.slot.role is not Role.OTHER]
    if not writers or not others or not any(c.slot.role is Role.EMBED for c in writers):
        return list(changes), ()
    factors = np.array([1.0 + c.scale for c in writers])
    middle = float(np.median(factors))
    if abs(middle - 1.0) <= COMMON_SCALE or float(np.abs(factors - middle).max()) > COMMON_SCALE * abs(middle):
        return list(changes), ()
    if max(abs(c.scale) for c in others) > COMMON_SCALE:
        return list(changes), ()
    chosen = {c.slot for c in writers}
    out = [replace(c, scale=0.0, relative=c.residual, rounding=rounding) if c.slot in chosen else c for c in changes]
    return out, ("rescaled:residual",)
