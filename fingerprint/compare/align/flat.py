"""A model without roles: every stored tensor whole, as it lies, under its own name."""

from __future__ import annotations

from dataclasses import replace

import torch

from fingerprint.architecture.interface import Dims, Layout, Norm, Positions, Role, Slot, View

from .model import Canonical

GENERIC = "generic"


def flat(model: Canonical) -> Canonical:
    """Undo every view, so that roles can be given anew.

    Args:
        model: Any layout; its views must cover the stored tensors, as those of ``recognise`` do.

    Returns:
        The model with slots OTHER only; a stored tensor whose views leave gaps stays cut, under numbered names.
    """
    by_tensor: dict[str, list[tuple[Slot, View]]] = {}
    for slot, view in model.layout.slots.items():
        if slot in model.tensors:
            by_tensor.setdefault(view.tensor, []).append((slot, view))
    tensors: dict[Slot, torch.Tensor] = {}
    for name, parts in by_tensor.items():
        whole = _whole(parts, model)
        pieces = (
            {name: whole} if whole is not None else {f"{name}#{i}": model.tensors[s] for i, (s, _) in _counted(parts)}
        )
        tensors |= {Slot(Role.OTHER, name=n): x for n, x in pieces.items()}
    views = {slot: View(slot.name, tuple(x.shape)) for slot, x in tensors.items()}
    layout = Layout(GENERIC, Dims(), Norm.NONE, Positions.OTHER, views, notes=model.layout.notes)
    return replace(model, layout=layout, tensors=tensors)


def _counted(parts: list[tuple[Slot, View]]) -> list[tuple[int, tuple[Slot, View]]]:
    return list(enumerate(parts))


def _whole(parts: list[tuple[Slot, View]], model: Canonical) -> torch.Tensor | None:
    """The stored tensor that these views cut, or None if they do not cover it."""
    indices = sorted({view.index for _, view in parts if view.index is not None})
    if not indices:
        return _matrix(parts, model)
    stack = [_matrix([p for p in parts if p[1].index == i], model) for i in indices]
    if indices != list(range(len(indices))) or any(
        x is None or stack[0] is None or x.shape != stack[0].shape for x in stack
    ):
        return None
    return torch.stack([x for x in stack if x is not None])


def _matrix(parts: list[tuple[Slot, View]], model: Canonical) -> torch.Tensor | None:
    if len({view.transpose for _, view in parts}) > 1:
        return None
    if any(view.order is not None for _, view in parts):
        x = _gathered(parts, model)
    elif len(parts) == 1 and parts[0][1].rows is None:
        x = model.tensors[parts[0][0]]
    else:
        x = _stacked(parts, model)
    return x.mT if x is not None and parts[0][1].transpose else x


def _stacked(parts: list[tuple[Slot, View]], model: Canonical) -> torch.Tensor | None:
    """Row slices put back one after another."""
    if any(view.rows is None for _, view in parts):
        return None
    ordered = sorted(parts, key=lambda p: p[1].rows or (0, 0))
    at = 0
    for _, view in ordered:
        start, stop = view.rows or (0, 0)
        if start != at:
            return None
        at = stop
    return torch.cat([model.tensors[slot] for slot, _ in ordered])


def _gathered(parts: list[tuple[Slot, View]], model: Canonical) -> torch.Tensor | None:
    """Gathered rows put back where they came from."""
    if any(view.order is None for _, view in parts):
        return None
    rows = torch.cat([torch.tensor(view.order) for _, view in parts])
    if sorted(rows.tolist()) != list(range(len(rows))):
        return None
    x = torch.cat([model.tensors[slot].reshape(len(view.order or ()), -1) for slot, view in parts])
    out = torch.empty_like(x)
    out[rows] = x
    return out.reshape(-1) if model.tensors[parts[0][0]].ndim == 1 else out
