"""Mixtures with models that stand beside the victim: interpolation, amplification, soups, grafts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from benchmarks.gauntlet.attacks.draft import change, read, size
from benchmarks.gauntlet.attacks.model import Draft, Model, Scene, Step
from fingerprint.architecture.interface import Role, Slot


def _other(model: Model | None, place: str) -> Mapping[Slot, torch.Tensor]:
    if model is None:
        raise ValueError(f"scene has no {place}: got None, expected a model of the victim's shape")
    return read(model).tensors


def _sum(parts: Sequence[tuple[float, Mapping[Slot, torch.Tensor]]]) -> dict[Slot, torch.Tensor]:
    """Weighted sum, slot by slot."""
    first = parts[0][1]
    return {slot: sum((w * t[slot] for w, t in parts), torch.zeros_like(first[slot])) for slot in first}


def toward_base(fraction: float) -> Step:
    """(1 - f) victim + f base: a fine-tune pulled back a little."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        base = _other(scene.base, "base")
        new = _sum([(1 - fraction, draft.tensors), (fraction, base)])
        out = change(draft, new, f"interpolated:{fraction:g}")
        return replace(out, weights={"victim": 1 - fraction, "base": fraction})

    return step


def amplified(factor: float) -> Step:
    """Take base + f (victim - base): the victim's own learning turned up."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        base = _other(scene.base, "base")
        new = _sum([(factor, draft.tensors), (1 - factor, base)])
        out = change(draft, new, f"amplified:{factor:g}")
        return replace(out, weights={"victim": factor, "base": 1 - factor})

    return step


def soup(*shares: float) -> Step:
    """Weighted mean of the victim (first share) and its siblings."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        others = [_other(m, "sibling") for m in scene.siblings[: len(shares) - 1]]
        new = _sum(list(zip(shares, [draft.tensors, *others], strict=True)))
        names = ["victim", *(f"sibling{i}" for i in range(len(others)))]
        return replace(change(draft, new), weights=dict(zip(names, shares, strict=True)))

    return step


def task_arithmetic(own: float, theirs: float) -> Step:
    """Take base + a (victim - base) + b (sibling - base), arXiv 2212.04089."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        base, sibling = _other(scene.base, "base"), _other(scene.siblings[0], "sibling")
        shares = {"victim": own, "sibling0": theirs, "base": 1 - own - theirs}
        new = _sum([(own, draft.tensors), (theirs, sibling), (shares["base"], base)])
        return replace(change(draft, new), weights=shares)

    return step


def slerp(share: float) -> Step:
    """Spherical interpolation with the first sibling, matrix by matrix; the weights named are the linear ones."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        other = _other(scene.siblings[0], "sibling")
        new = {slot: _slerp(value, other[slot], share) for slot, value in draft.tensors.items()}
        return replace(change(draft, new), weights={"victim": 1 - share, "sibling0": share})

    return step


def _slerp(a: torch.Tensor, b: torch.Tensor, t: float) -> torch.Tensor:
    cosine = (a.flatten() @ b.flatten() / (a.norm() * b.norm()).clamp_min(1e-12)).clamp(-1, 1)
    angle = torch.arccos(cosine)
    if angle < 1e-4:
        return (1 - t) * a + t * b
    return (torch.sin((1 - t) * angle) * a + torch.sin(t * angle) * b) / torch.sin(angle)


def graft(keep: Callable[[Slot, Draft], bool]) -> Step:
    """The victim's tensors where ``keep`` holds, the stranger's everywhere else."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        stranger = _other(scene.stranger, "stranger")
        total = sum(v.numel() for v in draft.tensors.values())
        kept = sum(v.numel() for s, v in draft.tensors.items() if keep(s, draft))
        new = {slot: stranger[slot] for slot in draft.tensors if not keep(slot, draft)}
        return replace(change(draft, new), kept=kept / total)

    return step


def lower_layers(slot: Slot, draft: Draft) -> bool:
    """Embeddings and the lower half."""
    return slot.role in (Role.EMBED, Role.POSITION) or 0 <= slot.layer < size(draft, "num_hidden_layers") // 2


def alternate_layers(slot: Slot, draft: Draft) -> bool:
    """Even layers."""
    return slot.layer >= 0 and slot.layer % 2 == 0


def embeddings(slot: Slot, draft: Draft) -> bool:
    """Token and position tables, nothing else."""
    return slot.role in (Role.EMBED, Role.POSITION, Role.TOKEN_TYPE)


def one_layer(slot: Slot, draft: Draft) -> bool:
    """One layer in the middle."""
    return slot.layer == size(draft, "num_hidden_layers") // 2


def all_but_one_layer(slot: Slot, draft: Draft) -> bool:
    """Everything but the last layer."""
    return slot.layer != size(draft, "num_hidden_layers") - 1
