"""A subnet to play: tiny decoders that were trained, fine-tunes of them, copies of every kind, in a folder as a hub.

Trained for real (on bytes of Python's own library), for copies and improvements differ in what gradient descent leaves
behind; tiny, for there are hundreds. Some are somebody's bytes as they are, so the content cache is in play.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from forensics.chain.observed import Kind
from forensics.chain.recorded_subnet import (
    SCHEMA,
    CommitEntry,
    HappenedEntry,
    Moment,
    NeuronEntry,
    SubnetRecording,
    encode,
)
from forensics.demo import decoder, tricks
from forensics.demo.decoder import Weights
from forensics.known.address import encode as address

GENESIS = "0x" + "5e" * 32
NETUID = 7
FIRST_BLOCK = 1_000_000
ORIGINALS = 24
STEPS, LENGTH, BATCH = 12, 48, 12
CONFIG = {
    **decoder.CONFIG,  # its layers and heads, which the tricks know
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
}
COPIES: tuple[tuple[str, Callable[[Weights, int], Weights]], ...] = (
    ("identical", lambda w, seed: w),
    ("renamed", lambda w, seed: tricks.renamed(w)),
    ("cast", lambda w, seed: tricks.cast(w, torch.float32)),
    ("permuted", lambda w, seed: tricks.permuted(w, seed=seed)),
    ("noisy", lambda w, seed: tricks.noisy(w, 0.01, seed=seed)),
    ("quantised", lambda w, seed: tricks.quantised(w)),
)


@dataclass(frozen=True)
class Planned:
    """A commitment to be made.

    Attributes:
        hotkey: Whose.
        repo: Names a folder of the hub.
        revision: Its commit.
        block: When.
        extrinsic: Where in that block.
        did: What was done: ``original``, or a kind of copy.
        of: Whose model was copied.
    """

    hotkey: str
    repo: str
    revision: str
    block: int
    extrinsic: int
    did: str
    of: str | None


def hotkey(number: int) -> str:
    """A well-formed address that belongs to nobody."""
    return address(hashlib.sha256(f"service benchmark {number}".encode()).digest())


def make(folder: Path, count: int) -> list[Planned]:
    """Write ``count`` checkpoints below ``folder``; made once, then read.

    Args:
        folder: Becomes a hub: ``owner/name/revision``.
        count: How many submissions.
    """
    noted = folder / f"plan-{count}.json"
    if noted.is_file():
        return [Planned(**entry) for entry in json.loads(noted.read_text())]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    originals = _originals(folder / ".trained", min(ORIGINALS, max(1, count // 4)))
    plan = []
    for number in range(count):
        source = number if number < len(originals) else (number * 7) % len(originals)
        did, change = ("original", None) if number < len(originals) else COPIES[number % len(COPIES)]
        weights = originals[source] if change is None else change(originals[source], number)
        planned = Planned(
            hotkey=hotkey(number),
            repo=f"miner{number}/model",
            revision=hashlib.sha1(f"{number}".encode(), usedforsecurity=False).hexdigest(),
            block=FIRST_BLOCK + number,
            extrinsic=number % 4,
            did=did,
            of=None if change is None else hotkey(source),
        )
        _save(weights, folder / planned.repo / planned.revision)
        plan.append(planned)
    noted.write_text(json.dumps([asdict(p) for p in plan]))
    return plan


class Chain:
    """What the chain shows, as a recording that grows; a chain never forgets a block that it once showed.

    Args:
        path: The file that the service follows; replaced at once.
        plan: All commitments, in the order of their blocks.
        seats: Uids that are registered.
    """

    def __init__(self, path: Path, plan: Sequence[Planned], *, seats: int) -> None:
        self._path, self._plan, self._shown = path, plan, 0
        self._neurons = tuple(
            NeuronEntry(uid, hotkey(uid), hotkey(10_000 + uid), FIRST_BLOCK - 100, False, None, hotkey(uid))
            for uid in range(seats)
        )
        self._moments = [_moment(FIRST_BLOCK - 1, FIRST_BLOCK, self._neurons, (), 0)]
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write()

    def show(self, count: int) -> None:
        """Let the first ``count`` commitments have been made."""
        if count > self._shown:
            made = self._plan[:count]
            first = self._moments[-1].number + 1
            self._moments.append(_moment(made[-1].block, first, self._neurons, made, self._shown))
            self._shown = count
            self._write()

    def _write(self) -> None:
        recording = SubnetRecording(schema=SCHEMA, genesis=GENESIS, netuid=NETUID, moments=tuple(self._moments))
        temporary = self._path.with_suffix(".part")
        temporary.write_bytes(encode(recording))
        temporary.replace(self._path)


def _moment(block: int, first: int, neurons: tuple[NeuronEntry, ...], made: Sequence[Planned], before: int) -> Moment:
    commits = tuple(
        CommitEntry(
            p.hotkey,
            p.block,
            p.extrinsic,
            json.dumps({"model": p.repo, "revision": p.revision}).encode().hex(),
            Kind.PLAIN,
            True,
            None,
            None,
            None,
        )
        for p in made
    )
    blocks = sorted({p.block for p in made[before:]})
    happened = tuple(HappenedEntry(number, tuple(c for c in commits if c.block == number), (), ()) for number in blocks)
    return Moment(
        number=block,
        hash=hashlib.sha256(f"block {block}".encode()).hexdigest(),
        time="2026-11-30T12:00:00Z",
        head=block + 3,
        first=first,
        neurons=neurons,
        commits=commits,
        happened=happened,
    )


def _originals(folder: Path, count: int) -> list[Weights]:
    """One base, and fine-tunes of it on other text; trained once and kept."""
    folder.mkdir(parents=True, exist_ok=True)
    base = _trained(folder / "base.safetensors", "library", 8 * STEPS, None, order=0)
    domains = sorted(decoder.DOMAINS)
    return [
        _trained(folder / f"{n}.safetensors", domains[n % len(domains)], STEPS, base, order=n + 1) for n in range(count)
    ]


def _trained(path: Path, domain: str, steps: int, parent: Weights | None, *, order: int) -> Weights:
    if not path.is_file():
        save_file(_train(domain, steps, parent, order), path)
    return dict(load_file(path))


def _train(domain: str, steps: int, parent: Weights | None, order: int) -> Weights:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(order)
    model = Qwen3ForCausalLM(Qwen3Config(**CONFIG)).float()
    if parent is not None:
        model.load_state_dict({name: tensor.float() for name, tensor in parent.items()})
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    stream = torch.tensor(list(decoder.text(domain).encode()))
    for _ in range(steps):
        at = torch.randint(0, len(stream) - LENGTH, (BATCH,))
        batch = torch.stack([stream[i : i + LENGTH] for i in at.tolist()])
        optimiser.zero_grad(set_to_none=True)
        model(input_ids=batch, labels=batch).loss.backward()
        optimiser.step()
    return {name: tensor.detach().to(torch.bfloat16) for name, tensor in model.state_dict().items()}


def _save(weights: Weights, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "model.safetensors")
