"""Attacks on models, with the truth about each: what a copier does to a checkpoint, and what honest people do.

``registry()`` names them, ``perform`` makes one, ``write`` saves the result as a checkpoint folder.
"""

from __future__ import annotations

import hashlib

import torch

from benchmarks.gauntlet.attacks import beyond, catalogue, mixtures
from benchmarks.gauntlet.attacks.draft import emit, read
from benchmarks.gauntlet.attacks.model import Attack, Attacked, Model, Need, Proof, Scene, Storage
from benchmarks.gauntlet.attacks.stored import laid_out, load, write

__all__ = [
    "Attack",
    "Attacked",
    "Model",
    "Need",
    "Proof",
    "Scene",
    "Storage",
    "laid_out",
    "load",
    "perform",
    "registry",
    "write",
]


def registry(*, beyond_the_table: bool = False) -> dict[str, Attack]:
    """Every attack by name.

    Args:
        beyond_the_table: Also those that change shapes in ways the table of symmetries does not list.

    Raises:
        ValueError: Two attacks have one name.
    """
    found: dict[str, Attack] = {}
    for group in (
        catalogue.identical(),
        catalogue.symmetries(),
        catalogue.changes(),
        mixtures.blends(),
        mixtures.partials(),
        mixtures.stacks(),
        mixtures.controls(),
        beyond.attacks() if beyond_the_table else (),
    ):
        for attack in group:
            if attack.name in found:
                raise ValueError(f"attack {attack.name!r}: named twice, expected unique names")
            found[attack.name] = attack
    return found


def perform(attack: Attack, scene: Scene, *, seed: int = 0) -> Attacked:
    """Make ``attack`` on ``scene``; the same seed gives the same bytes.

    Args:
        attack: One that ``applies`` to the scene.
        scene: The victim and those around it.
        seed: Mixed with the attack's name, so that two attacks never share their draws.

    Raises:
        ValueError: The attack does not apply.
    """
    if not attack.applies(scene):
        kind = scene.victim.config["model_type"]
        raise ValueError(
            f"attack {attack.name!r}: got a {kind} scene, expected {sorted(attack.families)} with "
            f"{sorted(attack.needs)}"
        )
    digest = hashlib.sha256(f"{attack.name}|{seed}".encode()).digest()
    rng = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    draft = read(_subject(attack, scene))
    for step in attack.steps:
        draft = step(draft, scene, rng)
    return Attacked(
        emit(draft), attack.relation, draft.transforms, draft.weights, draft.token_map, draft.output_map, draft.kept
    )


def _subject(attack: Attack, scene: Scene) -> Model:
    """The model that is disguised; ``Attack.needs`` saw to it that it is there."""
    sibling = scene.siblings[0] if scene.siblings else None
    places = {"victim": scene.victim, "child": scene.child, "sibling": sibling, "stranger": scene.stranger}
    found = places[attack.subject]
    assert found is not None
    return found
