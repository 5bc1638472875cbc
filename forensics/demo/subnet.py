"""The cast: who commits what in which order, and what is true about it.

``WAVES`` says what everybody hands in, as the chain shows it from one look to the next: who is copied commits before
who copies. The truth beside each miner is used only to mark the verdicts afterwards.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from attest.keys import ss58
from fingerprint.compare.relation import Relation
from forensics.demo import tricks
from forensics.demo.decoder import Weights
from forensics.demo.stage import BASE, Stage, save

SHARDS = 3
NO_COMMITMENT, NOT_FOUND = "no_commitment", "not_found"  # as the service says it
Make = Callable[[Stage, Path], bool]
"""Writes a checkpoint into a folder; returns False when it cannot be made (no package registry)."""


@dataclass(frozen=True)
class Miner:
    """Somebody registered on the subnet.

    Attributes:
        name: What the table calls them.
        did: What they did, in a few words.
        relations: Relations that are true of their model; the first is the expected one. None where no model is seen.
        of: Whose work it is made of; empty when nobody's.
        make: Makes the model; None where the hub has none.
        unknown: The reason why no model can be judged; None where one can.
    """

    name: str
    did: str
    relations: tuple[Relation, ...]
    of: tuple[str, ...]
    make: Make | None
    unknown: str | None = None

    @property
    def copy(self) -> bool:
        """Whether their model is of the copy class."""
        return any(relation.copy for relation in self.relations[:1])

    @property
    def commits(self) -> bool:
        """Whether they name a model on chain."""
        return self.unknown != NO_COMMITMENT

    @property
    def hotkey(self) -> str:
        """A well-formed address that belongs to nobody: its 32 bytes are a digest, not a public key anyone holds."""
        return _address(f"forensics demo {self.name}")

    @property
    def coldkey(self) -> str:
        """Owner of the hotkey; everybody here is a party of their own."""
        return _address(f"forensics demo {self.name}, coldkey")

    @property
    def repo(self) -> str:
        """Their repository, named as the Affine subnet wants it: it ends in the hotkey."""
        return f"{self.name}/affine-{self.hotkey}"

    @property
    def revision(self) -> str:
        """Its commit, 40 hex digits."""
        return hashlib.sha256(f"forensics demo {self.name}, commit".encode()).hexdigest()[:40]


def _address(seed: str) -> str:
    return ss58.encode(hashlib.sha256(seed.encode()).digest())


def _hand_in(name: str) -> Make:
    return lambda stage, folder: save(stage.trained[name], folder, stage)


def _change(name: str, change: Callable[[Weights], Weights], *, shards: int = 1) -> Make:
    return lambda stage, folder: save(change(stage.trained[name]), folder, stage, shards=shards)


def _toward_base(stage: Stage, folder: Path) -> bool:
    return save(tricks.blended([(0.9, stage.trained["ada"]), (0.1, stage.trained[BASE])]), folder, stage)


def _soup(stage: Stage, folder: Path) -> bool:
    return save(tricks.blended([(0.5, stage.trained["ada"]), (0.5, stage.trained["bob"])]), folder, stage)


def _real(change: Callable[[Weights], Weights] | None) -> Make:
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


WAVES: tuple[tuple[Miner, ...], ...] = (
    (
        Miner("ada", "fine-tuned the base", (Relation.DERIVED,), (BASE,), _hand_in("ada")),
        Miner("kim", "trained from scratch, on the base's data", (Relation.INDEPENDENT,), (), _hand_in("kim")),
        Miner("mia", "a sentence encoder (all-MiniLM-L6-v2)", (Relation.INDEPENDENT,), (), _real(None)),
    ),
    (
        Miner(
            "bob",
            "fine-tuned the base on other text",
            (Relation.SIBLING, Relation.DERIVED),
            (BASE, "ada"),
            _hand_in("bob"),
        ),
        Miner("cleo", "downloaded ada's and improved it", (Relation.DERIVED,), ("ada",), _hand_in("cleo")),
        Miner("dan", "reinforced ada's model, in bf16", (Relation.DERIVED,), ("ada",), _hand_in("dan")),
    ),
    (
        Miner(
            "eve",
            "uploaded ada's again, in 3 shards",
            (Relation.IDENTICAL,),
            ("ada",),
            _change("ada", dict, shards=SHARDS),
        ),
        Miner(
            "finn",
            "renamed ada's tensors, cast to f32",
            (Relation.IDENTICAL,),
            ("ada",),
            _change("ada", lambda w: tricks.cast(tricks.renamed(w), torch.float32)),
        ),
        Miner(
            "gail",
            "ada's: units and heads permuted, stream rotated",
            (Relation.EQUIVALENT,),
            ("ada",),
            _change("ada", lambda w: tricks.permuted(tricks.rotated(w, seed=1), seed=2)),
        ),
        Miner(
            "hal",
            "added 1% noise to ada's",
            (Relation.PERTURBED,),
            ("ada",),
            _change("ada", lambda w: tricks.noisy(w, 0.01, seed=3)),
        ),
    ),
    (
        Miner(
            "ivy",
            "cleo's, through int8 and back",
            (Relation.PERTURBED,),
            ("cleo",),
            _change("cleo", tricks.quantised),
        ),
        Miner("jon", "pulled ada's 10% back to the base", (Relation.PERTURBED,), ("ada",), _toward_base),
        Miner("lou", "averaged ada's and bob's", (Relation.MERGED,), ("ada", "bob"), _soup),
        Miner(
            "ned",
            "mia's: MLP units permuted, cast to bf16",
            (Relation.EQUIVALENT,),
            ("mia",),
            _real(lambda w: tricks.cast(tricks.permuted_encoder(w, seed=4), torch.bfloat16)),
        ),
        Miner(
            "oli",
            "mia's, through int8 and back",
            (Relation.PERTURBED,),
            ("mia",),
            _real(tricks.quantised),
        ),
        Miner("pat", "named a repository that is not there", (), (), None, unknown=NOT_FOUND),
    ),
)
"""Commitments, by the look at the chain that shows them."""
SILENT = (Miner("quin", "registered, and committed to nothing", (), (), None, unknown=NO_COMMITMENT),)
"""Registered without a commitment."""
MINERS = tuple(miner for wave in WAVES for miner in wave)
