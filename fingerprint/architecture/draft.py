"""Slots while roles are being found without names: which kind holds which roles, and how they lie in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import cutting
from .grid import Kind
from .interface import Role, Slot, View
from .resolve import Resolved


@dataclass(frozen=True)
class Held:
    """Roles a kind holds; more than one are stacked in rows of ``sizes``."""

    roles: tuple[Role, ...]
    sizes: tuple[int, ...] = ()


@dataclass
class Draft:
    """What has been found so far; grown step by step within one call."""

    slots: dict[Slot, View] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    open_pairs: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def place(self, kind: Kind, held: Held, *, flipped: bool = False, expert: int = -1) -> None:
        """Give a kind's roles their slots in every layer.

        Args:
            kind: A tensor of every layer.
            held: Its roles and their rows.
            flipped: Stored (in x out).
            expert: Expert the kind belongs to.
        """
        self.held[kind.key] = held
        for layer, name in enumerate(kind.names):
            if held.sizes:
                views = cutting.stacked(name, kind.shape, flipped, held.sizes)
            else:
                views = iter([View(name, cutting.oriented(kind.shape, flipped), transpose=flipped)])
            for role, view in zip(held.roles, views, strict=True):
                self.slots[Slot(role, layer, expert)] = view

    def accept(self, found: Resolved, *, flipped: bool = False, expert: int = -1) -> None:
        """Roles that were told apart together, one a kind."""
        self.open_pairs += found.ambiguous
        for role, kind in found.roles.items():
            self.place(kind, Held((role,)), flipped=flipped, expert=expert)

    def biases_of(self, kind: Kind) -> Held | None:
        """What a bias of ``kind`` holds."""
        held = self.held.get(kind.key)
        if held is None or any(role not in cutting.PER_LAYER_BIAS for role in held.roles):
            return None
        return Held(tuple(cutting.PER_LAYER_BIAS[role] for role in held.roles), held.sizes)

    def views(self, roles: tuple[Role, ...], layer: int) -> list[View]:
        """Views of a layer's slots of these roles, experts and shared experts included."""
        return [view for slot, view in self.slots.items() if slot.layer == layer and slot.role in roles]
