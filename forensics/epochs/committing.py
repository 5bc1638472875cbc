"""Committing epochs ahead: secrets drawn, sealed and locked; commitments signed; all in one transaction.

A number that is committed stays committed: asking again for the same epochs by number changes nothing, asking for other
ones under the same numbers is refused. So a crash, a retry or a second operator cannot exchange a secret; of two that
ask at once the later one is treated as if it had asked after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from attest.canonical import MAX_SAFE_INTEGER
from attest.seeds import batch, derive, seal
from attest.seeds.batch import MAX_BATCH
from attest.seeds.derive import Context
from attest.seeds.plan import Plan
from attest.seeds.verify import ANCHOR_MARGIN

from ..errors import StoreUnavailable, UsageError
from ..store.engine import writing
from ..store.epochs import EpochRow
from . import statements
from .errors import EpochConflict
from .interfaces import World
from .machine import Moment, State
from .records import Epoch, context
from .shelf import Shelf, say

LEAD: Final = 10 * ANCHOR_MARGIN
"""Seconds that the first R_mix must lie ahead when epochs are committed: time to log and anchor them."""
HORIZON: Final = 10 * 365 * 86_400
"""Seconds ahead within which the last R_open must lie. No beacon has promised to live longer, and a slip of the
keyboard would lock numbers away for good."""


class _Taken(Exception):
    """Somebody else has just committed one of the numbers."""


@dataclass(frozen=True)
class Schedule:
    """When epochs are mixed and opened, in beacon rounds.

    Args:
        mix: R_mix of the first epoch.
        every: Rounds from one R_mix to the next.
        window: Rounds from R_mix to R_open.
    """

    mix: int
    every: int
    window: int

    def rounds(self, place: int) -> tuple[int, int]:
        """R_mix and R_open of an epoch by its place in the batch."""
        mix = self.mix + place * self.every
        return mix, mix + self.window


@dataclass(frozen=True)
class _Draft:
    context: Context
    commitment: bytes
    sealed: bytes
    timelock: bytes


def commit(
    shelf: Shelf,
    world: World,
    moment: Moment,
    *,
    plan: Plan,
    generator: str,
    schedule: Schedule,
    count: int,
    first: int | None = None,
) -> list[Epoch]:
    """Commit ``count`` epochs, from ``first`` on.

    Args:
        shelf: Where they are kept.
        world: Key, beacon, randomness.
        moment: The newest final block.
        plan: What is drawn in each.
        generator: ``sha256:`` digest of the task generators.
        schedule: Their rounds.
        count: How many.
        first: Number of the first. When None it is that of the epoch with the schedule's first R_mix, so that a call
            can be repeated, and else the next free one.

    Returns:
        The epochs, committed now or before by the same call.

    Raises:
        UsageError: Rounds that are out, too close, or out of order; a wrong count.
        EpochConflict: A number is committed already with other parameters.
    """
    _check(schedule, count, moment, world)
    last = shelf.last()
    begin = first if first is not None else _next(shelf, schedule.mix)
    if begin + count - 1 > MAX_SAFE_INTEGER:
        raise UsageError(
            "no such number of an epoch", where="--first", got=begin, expected=f"at most {MAX_SAFE_INTEGER}"
        )
    wanted = [
        context(shelf.contest, begin + i, plan, generator, mix_round=mix, open_round=opened)
        for i in range(count)
        for mix, opened in [schedule.rounds(i)]
    ]
    known = {epoch.number: epoch for epoch in shelf.epochs()}
    if any(bound.epoch in known for bound in wanted):
        return _repeated(wanted, known)
    _check_order(wanted, last, moment, world)
    drafts = [_draft(bound, world) for bound in wanted]
    try:
        _store(shelf, world, plan, drafts)
    except _Taken:
        return _repeated(wanted, {epoch.number: epoch for epoch in shelf.epochs()})
    return [shelf.epoch(bound.epoch) for bound in wanted]


def _next(shelf: Shelf, mix_round: int) -> int:
    epochs = shelf.epochs()
    same = next((epoch.number for epoch in epochs if epoch.mix_round == mix_round), None)
    return same if same is not None else (epochs[-1].number + 1 if epochs else 0)


def _check(schedule: Schedule, count: int, moment: Moment, world: World) -> None:
    if not 1 <= count <= MAX_BATCH:
        raise UsageError("wrong number of epochs", where="--count", got=count, expected=f"1 to {MAX_BATCH}")
    if schedule.every < 1 or schedule.window < 1:
        raise UsageError("rounds must be ahead of each other", where="schedule", expected="at least 1")
    last, furthest = schedule.rounds(count - 1)[1], world.network.round_at(moment.time + HORIZON)
    if last > furthest:
        raise UsageError(
            "the last epoch would be opened too far ahead",
            where="--mix-round, --every, --window, --count",
            got=f"round {last}",
            expected=f"at most round {furthest}, ten years ahead",
        )


def _check_order(wanted: list[Context], last: Epoch | None, moment: Moment, world: World) -> None:
    first = wanted[0]
    if last is not None and (first.epoch != last.number + 1 or first.mix_round <= last.mix_round):
        raise EpochConflict(
            "epochs are committed in order",
            where=f"epoch {first.epoch}",
            got=f"round {first.mix_round}",
            expected=f"epoch {last.number + 1}, a round after {last.mix_round}",
        )
    ahead = world.network.time_of(first.mix_round) - moment.time
    if ahead < LEAD:
        raise UsageError(
            "the first epoch would be mixed too soon to be anchored before",
            where="--mix-round",
            got=f"round {first.mix_round}, {ahead} s ahead",
            expected=f"round {world.network.round_at(moment.time + LEAD) + 1} or later",
        )


def _repeated(wanted: list[Context], known: dict[int, Epoch]) -> list[Epoch]:
    found = [known[bound.epoch] for bound in wanted if bound.epoch in known]
    if not found:
        raise StoreUnavailable("the database would not take the epochs, nothing was changed", remedy="Try again.")
    if len(found) == len(wanted) and all(e.context == bound for e, bound in zip(found, wanted, strict=True)):
        return found
    raise EpochConflict(
        "these numbers are committed with other parameters, and a commitment is never replaced",
        where=f"epochs {found[0].number} to {found[-1].number}",
        remedy="Commit the numbers after them.",
    )


def _draft(bound: Context, world: World) -> _Draft:
    secret = world.entropy(derive.SIZE)
    return _Draft(
        context=bound,
        commitment=derive.commitment(bound, secret),
        sealed=seal.seal(secret, bound, key=world.seal_key(), nonce=world.entropy(seal.NONCE_SIZE)),
        timelock=world.timelock.encrypt(secret, bound.open_round),
    )


def _flush(session: Session) -> None:
    """Write what was added.

    Raises:
        _Taken: A unique number is there already; the whole transaction is given up.
    """
    try:
        session.flush()
    except IntegrityError:
        raise _Taken from None


def _store(shelf: Shelf, world: World, plan: Plan, drafts: list[_Draft]) -> None:
    places = batch.places([batch.leaf(d.context, d.commitment, d.timelock) for d in drafts])
    now = world.clock()
    spoken = statements.speaking(shelf.contest, world.signer, at=now)
    with writing(shelf.engine) as session:
        for draft, place in zip(drafts, places, strict=True):
            row = EpochRow(
                genesis=shelf.contest.genesis,
                netuid=shelf.contest.netuid,
                competition=shelf.contest.competition,
                number=draft.context.epoch,
                state=str(State.COMMITTED),
                plan=plan.encode(),
                generator="sha256:" + draft.context.generator.hex(),
                mix_round=draft.context.mix_round,
                open_round=draft.context.open_round,
                commitment=draft.commitment.hex(),
                sealed=draft.sealed,
                timelock=draft.timelock,
                batch_root=place.root.hex(),
                batch_index=place.index,
                batch_size=place.size,
                batch_path=b"".join(place.path),
                committed_at=now,
            )
            session.add(row)
            _flush(session)
            said = statements.commitment(
                spoken, draft.context, committed=draft.commitment, timelock=draft.timelock, place=place
            )
            say(session, row.id, statements.COMMITMENT, statements.signed(said, world.signer))
