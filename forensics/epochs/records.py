"""An epoch as the service keeps it, read out of its row."""

from __future__ import annotations

import json
from dataclasses import dataclass

from attest.canonical import read_object
from attest.log.merkle import HASH_SIZE
from attest.seeds import batch
from attest.seeds.derive import Context
from attest.seeds.epoch_file import Stamp
from attest.seeds.plan import Plan

from ..place import Place
from ..store.epochs import EpochRow
from .machine import State


@dataclass(frozen=True)
class Epoch:
    """One epoch; ``sealed`` is the only trace of its secret until the reveal."""

    id: int
    contest: Place
    number: int
    state: State
    plan: Plan
    generator: str
    mix_round: int
    open_round: int
    commitment: bytes
    sealed: bytes
    timelock: bytes
    place: batch.Place
    stamp: Stamp | None = None
    mix_signature: bytes | None = None
    open_signature: bytes | None = None
    roster: tuple[str, ...] = ()
    void_reason: str = ""

    @property
    def context(self) -> Context:
        """What its seed is bound to."""
        return context(
            self.contest, self.number, self.plan, self.generator, mix_round=self.mix_round, open_round=self.open_round
        )


def context(contest: Place, number: int, plan: Plan, generator: str, *, mix_round: int, open_round: int) -> Context:
    """The context of an epoch with these parameters; ``generator`` is a ``sha256:`` digest."""
    return Context(
        genesis=bytes.fromhex(contest.genesis[2:]),
        netuid=contest.netuid,
        competition=contest.competition,
        epoch=number,
        pool=plan.digest,
        generator=bytes.fromhex(generator.removeprefix("sha256:")),
        mix_round=mix_round,
        open_round=open_round,
    )


def from_row(row: EpochRow) -> Epoch:
    """The epoch of a row."""
    path = tuple(row.batch_path[i : i + HASH_SIZE] for i in range(0, len(row.batch_path), HASH_SIZE))
    stamp = None if row.stamp is None else Stamp.read(read_object(row.stamp, where="stamp"), where="stamp")
    return Epoch(
        id=row.id,
        contest=Place(row.genesis, row.netuid, row.competition),
        number=row.number,
        state=State(row.state),
        plan=Plan.parse(row.plan),
        generator=row.generator,
        mix_round=row.mix_round,
        open_round=row.open_round,
        commitment=bytes.fromhex(row.commitment),
        sealed=row.sealed,
        timelock=row.timelock,
        place=batch.Place(bytes.fromhex(row.batch_root), row.batch_index, row.batch_size, path),
        stamp=stamp,
        mix_signature=row.mix_signature,
        open_signature=row.open_signature,
        roster=tuple(json.loads(row.roster)) if row.roster else (),
        void_reason=row.void_reason or "",
    )
