"""Moving epochs on: look at chain and beacon, do what follows, log it; safe to repeat, to kill and to run twice.

Each change is one transaction that first makes sure the epoch is still where it was seen; a second worker that comes
too late changes nothing. A beacon or chain that gives no answer, or lies, leaves the epoch where it is.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass

from attest.canonical import write
from attest.errors import CommitmentMismatch
from attest.keys import ss58
from attest.predicates import Context as Speaking
from attest.predicates.seeds import MAX_ROSTER, Step
from attest.seeds import beacon, seal, timelock
from attest.seeds.derive import check_opening, final_seed
from attest.seeds.epoch_file import Stamp
from attest.seeds.errors import BeaconInvalid, BeaconUnavailable, SealInvalid, SeedError
from attest.seeds.plan import items_digest
from attest.seeds.verify import ANCHOR_MARGIN

from ..errors import ChainUnavailable
from ..store.engine import writing
from . import fetches, statements
from .interfaces import SeedChain, World
from .machine import Change, Facts, Moment, State, next_change
from .records import Epoch
from .shelf import Shelf, claimed, say


@dataclass(frozen=True)
class Happened:
    """A change that was made, or why an epoch waits (then ``state`` is where it is); no epoch when all of them wait."""

    epoch: int | None
    state: State | None
    note: str = ""
    failed: bool = False
    """The epoch's secret cannot be used: a matter for the operator, not for patience."""


@dataclass(frozen=True)
class _Seen:
    """Facts with the material behind them."""

    facts: Facts
    stamp: Stamp | None = None
    mix: bytes | None = None
    opened: bytes | None = None


class Rotation:
    """The life of one contest's epochs.

    Args:
        shelf: Where they are kept and logged.
        world: Key, beacon, clock, randomness.
        chain: Blocks, validators, anchors.
    """

    def __init__(self, shelf: Shelf, world: World, chain: SeedChain) -> None:
        self.shelf, self.world, self.chain = shelf, world, chain
        self._stamps: dict[bytes, Stamp] = {}

    def check_key(self) -> None:
        """Refuse a sealing key that opens no secret that is still needed, before anything is done with it.

        Raises:
            SealInvalid: There are sealed secrets, and this key opens none of them.
            UsageError: There are, and no key is set.
        """
        needed = [epoch for epoch in self.shelf.living() if epoch.open_signature is None]
        for epoch in needed:
            with suppress(SealInvalid):
                seal.unseal(epoch.sealed, epoch.context, key=self.world.seal_key())
                return
        if needed:
            raise SealInvalid(
                "this key opens none of the sealed secrets; nothing was changed",
                where="setting seed_key",
                got=f"{len(needed)} epochs sealed with another key",
                remedy="Give the key they were sealed with in FORENSICS_SEED_KEY. If it is lost, --lost-key goes on: "
                "epochs that are open by then are revealed from the timelock, others become void.",
            )

    def advance(self) -> list[Happened]:
        """Do everything that can be done now.

        Returns:
            What happened, and for epochs that wait for somebody else, for whom.
        """
        self.shelf.flush()
        happened: list[Happened] = []
        self._stamps.clear()  # one question for all epochs of a batch, asked anew each time
        try:
            moment = self.chain.moment()
            self.shelf.take_receipts()
            for epoch in self.shelf.living():
                happened += self._moved(epoch, moment)
        except ChainUnavailable as silence:
            happened.append(Happened(None, None, str(silence)))
        return happened

    def _moved(self, epoch: Epoch, moment: Moment) -> list[Happened]:
        """``_move``, but an epoch whose secret cannot be used holds up nobody but itself."""
        try:
            return self._move(epoch, moment)
        except (SeedError, CommitmentMismatch) as error:
            return [Happened(epoch.number, epoch.state, str(error), failed=True)]

    def _move(self, epoch: Epoch, moment: Moment) -> list[Happened]:
        """Every change of one epoch that is due."""
        happened: list[Happened] = []
        while True:
            notes: list[str] = []
            seen = self._look(epoch, moment, notes)
            change = next_change(epoch.state, mix_round=epoch.mix_round, network=self.world.network, facts=seen.facts)
            if change is None:
                return happened + [Happened(epoch.number, epoch.state, note) for note in notes]
            self._apply(epoch, change, seen)
            self.shelf.flush()
            epoch = self.shelf.epoch(epoch.number)
            happened.append(Happened(epoch.number, epoch.state, epoch.void_reason))
            if epoch.state in (State.REVEALED, State.VOID):
                return happened

    def _look(self, epoch: Epoch, moment: Moment, notes: list[str]) -> _Seen:
        due, state = self._due(epoch.mix_round, moment), epoch.state
        stamp = self._stamp(epoch, moment) if state is State.COMMITTED else epoch.stamp
        mix, opened = epoch.mix_signature, epoch.open_signature
        if mix is None and due and not (state is State.COMMITTED and stamp is not None):
            mix = self._signature(epoch.mix_round, notes)
        if opened is None and mix is not None and (state is State.MIXING or self._due(epoch.open_round, moment)):
            opened = self._signature(epoch.open_round, [])  # that it is not out is no news
        anchored_at = None if stamp is None else stamp.block_time
        facts = Facts(moment, anchored_at, mixed=mix is not None, opened=opened is not None)
        return _Seen(facts, stamp, mix, opened)

    def _due(self, round_: int, moment: Moment) -> bool:
        """Whether it is worth asking for a round: by either clock, for neither decides anything."""
        return max(moment.time, int(self.world.clock().timestamp())) >= self.world.network.time_of(round_)

    def _signature(self, round_: int, notes: list[str]) -> bytes | None:
        """The verified signature of a round; None while there is none, or while the source lies."""
        try:
            return beacon.signed(self.world.beacon, round_, network=self.world.network)
        except (BeaconUnavailable, BeaconInvalid) as error:
            notes.append(str(error))
            return None

    def _stamp(self, epoch: Epoch, moment: Moment) -> Stamp | None:
        """The first block that holds the commitment; puts it there while there is still time."""
        digest = self.shelf.anchored_digest(epoch)
        if digest is None or digest in self._stamps:
            return None if digest is None else self._stamps[digest]
        found = [a for a in self.chain.anchors(digest) if a.digest == digest]
        last_call = self.world.network.time_of(epoch.mix_round) - ANCHOR_MARGIN
        if not found and moment.time < last_call:
            found = [self.chain.anchor(digest)]
        if not found:
            return None
        first = min(found)
        self._stamps[digest] = Stamp.of(first, self.chain.block_time(first.block))
        return self._stamps[digest]

    def _apply(self, epoch: Epoch, change: Change, seen: _Seen) -> None:
        """Make one change and say so, in one transaction."""
        kind, signed, values = self._said(epoch, change, seen)
        with writing(self.shelf.engine) as session:
            row = claimed(session, epoch)
            if row is None:
                return  # another worker was faster
            if change.state is State.CLOSED:
                evidence = fetches.digest(session, epoch.id)
                kind, signed = self._step(epoch, Step.CLOSED, seen.facts.moment, evidence=evidence)
            for name, value in values.items():
                setattr(row, name, value)
            row.state = str(change.state)
            say(session, epoch.id, kind, signed)

    def _said(
        self, epoch: Epoch, change: Change, seen: _Seen
    ) -> tuple[str, tuple[str, bytes], dict[str, bytes | str | None]]:
        """Kind and envelope of the statement, and the columns that come with the change."""
        moment = seen.facts.moment
        if change.state is State.ANCHORED and seen.stamp is not None:
            evidence, held = "sha256:" + seen.stamp.digest, Moment(seen.stamp.block, seen.stamp.block_time)
            return *self._step(epoch, Step.ANCHORED, held, evidence=evidence), {"stamp": _stored(seen.stamp)}
        if change.state is State.MIXING:
            return *self._step(epoch, Step.MIXING, moment), {}
        if change.state is State.OPEN and seen.mix is not None:
            return self._opening(epoch, moment, seen.mix)
        if change.state is State.CLOSED:
            return *self._step(epoch, Step.CLOSED, moment), {"open_signature": seen.opened}
        if change.state is State.REVEALED:
            return self._reveal(epoch)
        values: dict[str, bytes | str | None] = {
            "void_reason": change.reason,
            "mix_signature": seen.mix,
            "open_signature": seen.opened,
        }
        if seen.stamp is not None:
            values["stamp"] = _stored(seen.stamp)
        return *self._step(epoch, Step.VOID, moment, reason=change.reason), values

    def _opening(
        self, epoch: Epoch, moment: Moment, mix: bytes
    ) -> tuple[str, tuple[str, bytes], dict[str, bytes | str | None]]:
        roster = self._roster(epoch, moment)
        seed = final_seed(epoch.context, self._secret(epoch), beacon.value(mix))
        evidence = items_digest(seed, epoch.plan, len(roster))
        kind, signed = self._step(epoch, Step.OPEN, moment, evidence=evidence, roster=roster)
        return kind, signed, {"mix_signature": mix, "roster": json.dumps(roster)}

    def _roster(self, epoch: Epoch, moment: Moment) -> tuple[str, ...]:
        found = self.chain.validators(epoch.contest.netuid, moment.block)
        return tuple(sorted({ss58.normalise(hotkey) for hotkey in found})[:MAX_ROSTER])

    def _reveal(self, epoch: Epoch) -> tuple[str, tuple[str, bytes], dict[str, bytes | str | None]]:
        mix, opened = epoch.mix_signature, epoch.open_signature
        if mix is None or opened is None:
            raise AssertionError("an epoch is closed on both signatures")
        secret = self._secret(epoch)
        seed = final_seed(epoch.context, secret, beacon.value(mix))
        spoken = self._speaking(epoch)
        said = statements.reveal(spoken, epoch, secret=secret, mix_signature=mix, seed=seed)
        return statements.REVEAL, statements.signed(said, self.world.signer), {}

    def _secret(self, epoch: Epoch) -> bytes:
        """The epoch's secret: sealed at rest, and from R_open on in the timelock, should the sealing key be lost."""
        try:
            secret = seal.unseal(epoch.sealed, epoch.context, key=self.world.seal_key())
        except SealInvalid:
            if epoch.open_signature is None:
                raise
            secret = timelock.open_(epoch.timelock, epoch.open_round, epoch.open_signature, network=self.world.network)
        check_opening(epoch.context, secret, epoch.commitment)
        return secret

    def _step(
        self,
        epoch: Epoch,
        what: Step,
        moment: Moment,
        *,
        evidence: str | None = None,
        reason: str | None = None,
        roster: tuple[str, ...] = (),
    ) -> tuple[str, tuple[str, bytes]]:
        spoken = self._speaking(epoch)
        said = statements.step(spoken, epoch, what, moment, evidence=evidence, reason=reason, roster=roster)
        return str(what), statements.signed(said, self.world.signer)

    def _speaking(self, epoch: Epoch) -> Speaking:
        parent = self.shelf.statements(epoch)[statements.COMMITMENT].digest
        return statements.speaking(self.shelf.contest, self.world.signer, at=self.world.clock(), parents=(parent,))


def _stored(stamp: Stamp) -> bytes:
    return write(stamp.write())
