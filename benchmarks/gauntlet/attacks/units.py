"""Symmetries of the MLP: permuted, rescaled and split units, permuted experts (2-weights section 4)."""

from __future__ import annotations

import torch

from benchmarks.gauntlet.attacks.draft import change, size
from benchmarks.gauntlet.attacks.model import Draft, Scene
from benchmarks.gauntlet.attacks.residual import gaussian, permutation
from fingerprint.architecture.interface import SHARED_EXPERT, Role, Slot

_ALIGNED = 8  # units are added in eights: grouped matrix products want rows of a multiple of 16 bytes
_IN = (Role.GATE, Role.GATE_BIAS, Role.UP, Role.UP_BIAS)


def _mlps(draft: Draft) -> list[tuple[int, int]]:
    """(layer, expert) of every MLP; expert is -1 in dense layers."""
    return [(s.layer, s.expert) for s in draft.tensors if s.role is Role.DOWN]


def permute_units(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Permute the units of every MLP (inside every expert too)."""
    new: dict[Slot, torch.Tensor] = {}
    for layer, expert in _mlps(draft):
        down = Slot(Role.DOWN, layer, expert)
        order = permutation(rng, draft.tensors[down].shape[1])
        new[down] = draft.tensors[down][:, order]
        for slot in (Slot(r, layer, expert) for r in _IN):
            if slot in draft.tensors:
                new[slot] = draft.tensors[slot][order]
    return change(draft, new, "permuted:mlp")


def scale_units(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """U_i <- s U_i and D_:,i <- D_:,i / s with random sign and size; the gate cannot scale. Gated MLPs only."""
    new: dict[Slot, torch.Tensor] = {}
    for layer, expert in _mlps(draft):
        down, up = Slot(Role.DOWN, layer, expert), Slot(Role.UP, layer, expert)
        bias = Slot(Role.UP_BIAS, layer, expert)
        units = draft.tensors[down].shape[1]
        scale = torch.exp(0.5 * gaussian(rng, units)).clamp(0.25, 4.0) * torch.sign(gaussian(rng, units))
        new[up] = draft.tensors[up] * scale[:, None]
        new[down] = draft.tensors[down] / scale
        if bias in draft.tensors:
            new[bias] = draft.tensors[bias] * scale
    return change(draft, new, "rescaled:mlp")


def split_units(draft: Draft, scene: Scene, rng: torch.Generator, fraction: float = 0.125) -> Draft:
    """Duplicate ``fraction`` of the units of every MLP and share what they write between the twins (a and 1-a)."""
    new: dict[Slot, torch.Tensor] = {}
    width = size(draft, "intermediate_size")
    extra = max(_ALIGNED, round(fraction * width / _ALIGNED) * _ALIGNED)
    for layer, expert in _mlps(draft):
        down = Slot(Role.DOWN, layer, expert)
        chosen = permutation(rng, width)[:extra]
        share = 0.2 + 0.6 * torch.rand(extra, generator=rng, dtype=torch.float64)
        kept = draft.tensors[down].clone()
        twins = kept[:, chosen] * (1 - share)
        kept[:, chosen] *= share
        new[down] = torch.cat([kept, twins], dim=1)
        for slot in (Slot(r, layer, expert) for r in _IN):
            if slot in draft.tensors:
                new[slot] = torch.cat([draft.tensors[slot], draft.tensors[slot][chosen]])
    return change(draft, new, "split:mlp", intermediate_size=width + extra)


def permute_experts(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Permute the experts of every layer with the router's rows."""
    new: dict[Slot, torch.Tensor] = {}
    experts = size(draft, "experts")
    for layer in range(size(draft, "num_hidden_layers")):
        order = permutation(rng, experts)
        router = Slot(Role.ROUTER, layer)
        new[router] = draft.tensors[router][order]
        for slot in draft.tensors:
            if slot.layer == layer and 0 <= slot.expert < SHARED_EXPERT:
                new[slot] = draft.tensors[slot._replace(expert=int(order[slot.expert]))]
    return change(draft, new, "permuted:experts")
