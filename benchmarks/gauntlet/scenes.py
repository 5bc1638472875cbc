"""Victims and what stands around them: which honest models of a family play which part in an attack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.gauntlet.attacks import Scene, load
from benchmarks.gauntlet.families import Family

BASE = "base-s0"
SIBLINGS = ("ft-b", "ft-ab", "ft-a-order2", "rl-seed2")
CHILDREN: dict[str, str] = {"ft-a": "ft-a-cont", "base-s0": "rl"}
"""Victim to an honest child of it: a continued fine-tune, and the lightest update there is."""

LIGHT_CHILDREN: dict[str, str] = {"ft-a": "rl-from-ft-a", "base-s0": "rl"}
"""Victims to children that differ from them by a few thousandths."""
STRANGERS = ("s1-ft-a", "base-s1")


@dataclass(frozen=True)
class Stage:
    """A scene with the names of its players, ``victim``, ``base``, ``sibling0`` .. ``child``, ``stranger``."""

    scene: Scene
    names: dict[str, str]


def stages(
    family: Family, victims: tuple[str, ...] = ("ft-a", "rl"), children: Mapping[str, str] = CHILDREN
) -> Iterator[Stage]:
    """A stage for each victim that the family has."""
    models = family.models
    for victim in victims:
        if victim not in models or BASE not in models:
            continue
        siblings = [s for s in SIBLINGS if s in models and s != victim][:2]
        child = children.get(victim)
        child = child if child in models else None
        stranger = next((s for s in STRANGERS if s in models), None)
        names = {"victim": victim, "base": BASE}
        names |= {f"sibling{i}": s for i, s in enumerate(siblings)}
        names |= {"child": child} if child else {}
        names |= {"stranger": stranger} if stranger else {}
        yield Stage(
            Scene(
                load(models[victim].path),
                load(models[BASE].path),
                tuple(load(models[s].path) for s in siblings),
                load(models[child].path) if child else None,
                load(models[stranger].path) if stranger else None,
            ),
            names,
        )
