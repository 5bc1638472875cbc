"""Experts of layers whose names say nothing: packed along a first axis, or numbered side by side."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from . import cutting, resolve
from .draft import Draft, Held
from .grid import Grid, Kind
from .interface import Role
from .resolve import Weights

_NUMBER = re.compile(r"(?:(?<=\.)|^)\d+(?=\.|$)")


@dataclass(frozen=True)
class Experts:
    """Kinds of a mixture's MLPs.

    Attributes:
        packed: Kinds of rank 3, experts first.
        apart: Kinds of one expert each, in expert order, by the family they belong to.
        router: The kind with a row for every expert.
        count: Number of experts; 0 without any.
    """

    packed: tuple[Kind, ...] = ()
    apart: tuple[tuple[Kind, ...], ...] = ()
    router: Kind | None = None
    count: int = 0

    @property
    def members(self) -> frozenset[Kind]:
        """All kinds that belong to experts or route to them."""
        flat = [kind for family in self.apart for kind in family]
        return frozenset([*self.packed, *flat, *([self.router] if self.router else [])])


def find_experts(grid: Grid, hidden: int) -> Experts:
    """Experts of a grid; none where there is no router, or the shapes are not those of an MLP."""
    packed = tuple(k for k in grid.kinds if len(k.shape) == 3 and k.shape[0] > 1 and hidden in k.shape[1:])
    apart = tuple(_families(grid.kinds, hidden))
    counts = {k.shape[0] for k in packed} | {len(family) for family in apart}
    if len(counts) != 1 or len(packed) + len(apart) not in (2, 3):
        return Experts()
    count = counts.pop()
    routers = [k for k in grid.kinds if k.shape in ((count, hidden), (hidden, count))]
    return Experts(packed, apart, routers[0], count) if len(routers) == 1 else Experts()


def _families(kinds: Sequence[Kind], hidden: int) -> list[tuple[Kind, ...]]:
    """Matrices of one shape whose keys differ in one number only, which counts up; leftmost number first."""
    groups: dict[tuple[str, str, tuple[int, ...]], dict[int, Kind]] = defaultdict(dict)
    for kind in kinds:
        if len(kind.shape) == 2 and hidden in kind.shape:
            for found in _NUMBER.finditer(kind.key):
                groups[kind.key[: found.start()], kind.key[found.end() :], kind.shape][int(found[0])] = kind
    taken: set[Kind] = set()
    families: list[tuple[Kind, ...]] = []
    for _, group in sorted(groups.items(), key=lambda item: len(item[0][0])):
        members = tuple(group[number] for number in sorted(group))
        if len(group) > 1 and max(group) - min(group) == len(group) - 1 and not taken & set(members):
            families.append(members)
            taken |= set(members)
    return families


def place_experts(draft: Draft, weights: Weights, experts: Experts, hidden: int) -> None:
    """Gate, up and down of every expert, and the router.

    Args:
        draft: Gets the slots.
        weights: Where gate and up are told apart.
        experts: Kinds of the mixture.
        hidden: Width of the residual stream.
    """
    if experts.router is not None:
        turned = experts.router.shape[1] != hidden
        draft.place(experts.router, Held((Role.ROUTER,)), flipped=turned)
    if experts.packed:
        _place_packed(draft, experts.packed, hidden)
    elif experts.apart:
        _place_apart(draft, weights, experts.apart, hidden)


def _place_packed(draft: Draft, packed: Sequence[Kind], hidden: int) -> None:
    """Two tensors: gate over up, and down. Three: told apart by place only, so they stay open."""
    plan: list[tuple[Kind, tuple[Role, ...]]]
    if len(packed) == 3:
        lone = [kind for kind in packed if sum(other.shape == kind.shape for other in packed) == 1]
        if len(lone) != 1:
            return
        one, other = (kind for kind in packed if kind is not lone[0])
        draft.open_pairs.append((Role.GATE.value, Role.UP.value))
        plan = [(one, (Role.GATE,)), (other, (Role.UP,)), (lone[0], (Role.DOWN,))]
    else:
        down, fused = sorted(packed, key=lambda kind: kind.shape[1] * kind.shape[2])
        plan = [(fused, (Role.GATE, Role.UP)), (down, (Role.DOWN,))]
    for kind, roles in plan:
        writer = roles == (Role.DOWN,)
        turned = kind.shape[1] != hidden if writer else kind.shape[2] != hidden
        for layer, name in enumerate(kind.names):
            draft.slots.update(cutting.packed(name, kind.shape, turned, roles, layer))


def _place_apart(draft: Draft, weights: Weights, apart: Sequence[Sequence[Kind]], hidden: int) -> None:
    """Three families of one matrix an expert; told apart on the first expert."""
    shapes = [weights.view(family[0], 0).shape for family in apart]
    downs = [family for family, shape in zip(apart, shapes, strict=True) if shape[0] == hidden != shape[1]]
    readers = [family for family in apart if family not in downs]
    if len(downs) != 1 or len(readers) not in (1, 2):
        return
    for number, kind in enumerate(downs[0]):
        draft.place(kind, Held((Role.DOWN,)), flipped=weights.flipped, expert=number)
    if len(readers) == 1:
        plan = {Role.UP: readers[0]}
    else:
        found = resolve.gate_and_up(weights, [family[0] for family in readers])
        draft.open_pairs += found.ambiguous
        plan = {role: next(f for f in readers if f[0] is kind) for role, kind in found.roles.items()}
    for role, family in plan.items():
        for number, kind in enumerate(family):
            draft.place(kind, Held((role,)), flipped=weights.flipped, expert=number)
