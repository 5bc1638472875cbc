"""The cast: who commits what at which block, and what is true about it.

``MINERS`` says in commit order what everybody hands in. The truth beside each miner is used only to mark the answers
afterwards.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from fingerprint.compare.relation import Relation
from forensics.demo import tricks
from forensics.demo.decoder import Weights
from forensics.demo.stage import BASE, Stage, save

SHARDS = 3
FIRST_BLOCK = 8_500_000
BLOCKS_APART = 360
"""A tempo: 72 minutes."""


@dataclass(frozen=True)
class Miner:
    """One commitment.

    Attributes:
        name: Label in the table.
        did: What they did, in a few words.
        relations: Relations that are true of it; the first is the expected one.
        of: Whose work it is made of; empty when nobody's.
        make: Writes the checkpoint into a folder; returns False when it cannot be made (no registry).
        transforms: Stems of transforms that must be named.
    """

    name: str
    did: str
    relations: tuple[Relation, ...]
    of: tuple[str, ...]
    make: Callable[[Stage, Path], bool]
    transforms: tuple[str, ...] = ()

    @property
    def copy(self) -> bool:
        """Whether it is of the copy class."""
        return self.relations[0].copy


def _hand_in(name: str) -> Callable[[Stage, Path], bool]:
    return lambda stage, folder: save(stage.trained[name], folder, stage)


def _change(name: str, change: Callable[[Weights], Weights], *, shards: int = 1) -> Callable[[Stage, Path], bool]:
    return lambda stage, folder: save(change(stage.trained[name]), folder, stage, shards=shards)


def _toward_base(stage: Stage, folder: Path) -> bool:
    return save(tricks.blended([(0.9, stage.trained["ada"]), (0.1, stage.trained[BASE])]), folder, stage)


def _soup(stage: Stage, folder: Path) -> bool:
    return save(tricks.blended([(0.5, stage.trained["ada"]), (0.5, stage.trained["bob"])]), folder, stage)


def _real(change: Callable[[Weights], Weights] | None) -> Callable[[Stage, Path], bool]:
    """The real MiniLM, as it is or changed."""

    def make(stage: Stage, folder: Path) -> bool:
        if stage.minilm is None:
            return False
        folder.mkdir(parents=True)
        for name in ("config.json", "tokenizer.json"):
            (folder / name).write_bytes((stage.minilm / name).read_bytes())
        weights = stage.minilm / "model.safetensors"
        if change is None:
            shutil.copyfile(weights, folder / "model.safetensors")
        else:
            save_file(change(load_file(weights)), folder / "model.safetensors")
        return True

    return make


MINERS: tuple[Miner, ...] = (
    Miner("ada", "fine-tuned the base", (Relation.DERIVED,), (BASE,), _hand_in("ada")),
    Miner(
        "bob", "fine-tuned the base on other text", (Relation.SIBLING, Relation.DERIVED), (BASE, "ada"), _hand_in("bob")
    ),
    Miner("cleo", "downloaded ada's model and improved it", (Relation.DERIVED,), ("ada",), _hand_in("cleo")),
    Miner("dan", "reinforced ada's model, in bf16", (Relation.DERIVED,), ("ada",), _hand_in("dan")),
    Miner(
        "eve",
        "uploaded ada's weights again, in 3 shards",
        (Relation.IDENTICAL,),
        ("ada",),
        _change("ada", dict, shards=SHARDS),
    ),
    Miner(
        "finn",
        "renamed ada's tensors and cast them to f32",
        (Relation.IDENTICAL,),
        ("ada",),
        _change("ada", lambda w: tricks.cast(tricks.renamed(w), torch.float32)),
        ("renamed",),
    ),
    Miner(
        "gail",
        "ada's: units and heads permuted, stream rotated",
        (Relation.EQUIVALENT,),
        ("ada",),
        _change("ada", lambda w: tricks.permuted(tricks.rotated(w, seed=1), seed=2)),
        ("permuted", "rotated"),
    ),
    Miner(
        "hal",
        "added 1% noise to ada's",
        (Relation.PERTURBED,),
        ("ada",),
        _change("ada", lambda w: tricks.noisy(w, 0.01, seed=3)),
        ("noise",),
    ),
    Miner(
        "ivy",
        "cleo's, through int8 and back",
        (Relation.PERTURBED,),
        ("cleo",),
        _change("cleo", tricks.quantised),
        ("quantised:int8",),
    ),
    Miner(
        "jon",
        "pulled ada's 10% back toward the base",
        (Relation.PERTURBED,),
        ("ada",),
        _toward_base,
        ("interpolated",),
    ),
    Miner("kim", "trained from scratch, on the base's data", (Relation.INDEPENDENT,), (), _hand_in("kim")),
    Miner("lou", "averaged ada's and bob's", (Relation.MERGED,), ("ada", "bob"), _soup),
    Miner("mia", "a sentence encoder (all-MiniLM-L6-v2)", (Relation.INDEPENDENT,), (), _real(None)),
    Miner(
        "ned",
        "mia's: MLP units permuted, cast to bf16",
        (Relation.EQUIVALENT,),
        ("mia",),
        _real(lambda w: tricks.cast(tricks.permuted_encoder(w, seed=4), torch.bfloat16)),
        ("permuted:mlp",),
    ),
    Miner(
        "oli",
        "mia's, through int8 and back",
        (Relation.PERTURBED,),
        ("mia",),
        _real(tricks.quantised),
        ("quantised:int8",),
    ),
)
