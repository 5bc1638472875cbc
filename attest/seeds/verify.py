"""An epoch, link by link, for someone who trusts nobody but the chain, the beacon and a public key.

    statement -> inclusion -> batch -> anchor -> steps -> beacon -> reveal -> opening -> timelock -> seed -> items

Nothing is asked of any network. What the outcomes mean, and which faults there are: ``report``. Statement and
inclusion come out of one receipt: a leaf is believed only after its hash was proven to be in the tree.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from attest.checking import Checked, Expected, check
from attest.errors import AttestError, CommitmentMismatch
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Scheme
from attest.keys.ss58 import encode as address
from attest.log.errors import ProofInvalid
from attest.log.merkle import verify_consistency
from attest.log.note import Checkpoint, NoteKey
from attest.log.proof import parse_receipt, verify_receipt
from attest.predicates import EpochStep, Predicate, SeedCommitment, SeedReveal
from attest.predicates.seeds import Step

from . import batch, beacon, timelock
from .beacon import QUICKNET, Network
from .derive import Context, check_opening, final_seed
from .epoch_file import EpochFile, Stamp
from .errors import BeaconInvalid, SeedError, TimelockInvalid
from .plan import items_digest
from .report import Fault, Link, NotChecked, Outcome, Pending, Report

ANCHOR_MARGIN: Final = 60
"""Seconds that the anchoring block must precede R_mix: more than a block's own clock can be wrong (12 s blocks)."""
REVEAL_GRACE: Final = 3600
"""Seconds after R_open within which the reveal must be in the file."""

Confirm = Callable[[Stamp], None]
"""Asks a chain whether an anchor and its block's time are as stated; raises an ``AttestError`` when they are not."""
P = TypeVar("P", bound=Predicate)


def verify(
    epoch: EpochFile,
    *,
    key: NoteKey,
    now: int,
    network: Network = QUICKNET,
    confirm: Confirm | None = None,
    expected: Expected | None = None,
) -> Report:
    """Check an epoch's public file.

    Args:
        epoch: The file.
        key: The service's public key with its log's name: signs statements and checkpoints.
        now: POSIX time by the reader's own clock; decides only whether something is late.
        network: The beacon; anything but quicknet is a rehearsal.
        confirm: Asks a chain about an anchor; without it anchors count as the file states them.
        expected: Where the epoch must be from; None accepts any chain and subnet.

    Returns:
        The report; nothing is raised for what is wrong with the epoch.
    """
    walk = _Walk(epoch, key, now, network, confirm, expected or Expected(None, None))
    for name, step in _LINKS:
        walk.take(name, step)
    return Report(tuple(walk.links), walk.context, walk.seed, walk.roster, walk.void)


def context_of(statement: SeedCommitment) -> Context:
    """The context that a commitment's statement speaks of."""
    place = statement.context
    return Context(
        genesis=bytes.fromhex(place.genesis[2:]),
        netuid=place.netuid,
        competition=place.competition,
        epoch=statement.epoch,
        pool=bytes.fromhex(statement.pool.removeprefix("sha256:")),
        generator=bytes.fromhex(statement.generator.removeprefix("sha256:")),
        mix_round=statement.mix_round,
        open_round=statement.open_round,
        chain=bytes.fromhex(statement.chain),
    )


@dataclass
class _Walk:
    """What has been established so far."""

    epoch: EpochFile
    key: NoteKey
    now: int
    network: Network
    confirm: Confirm | None
    expected: Expected
    links: list[Link] = field(default_factory=list)
    context: Context | None = None
    committed: Checked[SeedCommitment] | None = None
    checkpoint: Checkpoint | None = None
    revealed: Checked[SeedReveal] | None = None
    mix: bytes | None = None
    locked: bytes | None = None
    secret: bytes | None = None
    seed: bytes | None = None
    opened: EpochStep | None = None
    roster: tuple[str, ...] = ()
    void: str = ""

    def take(self, name: str, step: Callable[[_Walk], str]) -> None:
        """Walk one link and note how it stands."""
        outcome, code = Outcome.OK, ""
        try:
            detail = step(self)
        except (Pending, NotChecked) as why:
            outcome, detail = Outcome.PENDING if isinstance(why, Pending) else Outcome.NOT_CHECKED, str(why)
        except Fault as fault:
            outcome, detail, code = Outcome.FAULT, str(fault), fault.code
        except AttestError as error:
            outcome, detail, code = Outcome.BROKEN, str(error), error.code
        self.links.append(Link(name, outcome, detail, code))

    @property
    def statement(self) -> Checked[SeedCommitment]:
        """The commitment's statement, once it is believed."""
        if self.committed is None:
            raise NotChecked("the statement cannot be believed")
        return self.committed

    @property
    def bound(self) -> Context:
        """The epoch's context, once the statement is believed."""
        if self.context is None:
            raise NotChecked("the statement cannot be believed")
        return self.context

    def spoken(self, leaf: bytes, kind: type[P], where: str) -> Checked[P]:
        """A statement that the service signed, for here."""
        account = Hotkey(Scheme.ED25519, address(self.key.public))
        return check(leaf, kind, expected=self.expected, trusted=[account.verifier()], where=where)

    def stamp_of(self, checkpoint: Checkpoint) -> Stamp | None:
        """The earliest anchor of a checkpoint on the epoch's own chain, confirmed where a chain can be asked."""
        digest, genesis = checkpoint.digest().hex(), "0x" + self.bound.genesis.hex()
        found = [s for s in self.epoch.stamps if s.digest == digest and s.genesis == genesis]
        first = min(found, key=lambda s: (s.block, s.extrinsic), default=None)
        if first is not None and self.confirm is not None:
            self.confirm(first)
        return first

    def reached(self, round_: int) -> bool:
        """Whether a round should be out by the reader's clock."""
        return self.now >= self.network.time_of(round_)


def _statement(walk: _Walk) -> str:
    leaf = parse_receipt(walk.epoch.commitment.encode()).leaf
    if leaf is None:
        raise ProofInvalid("the receipt holds no statement", where="commitment")
    found = walk.spoken(leaf, SeedCommitment, "commitment")
    context = context_of(found.predicate)
    if context.chain != walk.network.chain or context.pool != walk.epoch.plan.digest:
        raise SeedError("the plan in the file is not the one committed to", where="plan", code="plan_mismatch")
    walk.committed, walk.context = found, context
    return f"epoch {context.epoch} of netuid {context.netuid}, {context.competition}, signed by {walk.key.name}"


def _inclusion(walk: _Walk) -> str:
    proven = verify_receipt(walk.epoch.commitment.encode(), log=walk.key)
    walk.checkpoint = proven.signed.checkpoint
    return f"leaf {proven.index} of {walk.checkpoint.size} in the log"


def _batch(walk: _Walk) -> str:
    said, path = walk.statement.predicate, walk.epoch.batch_path
    if said.batch is None:
        return "committed alone, not ahead under a common root"
    root = bytes.fromhex(said.batch.root.removeprefix("sha256:"))
    place = batch.Place(root, said.batch.index, said.batch.size, tuple(map(bytes.fromhex, path or ())))
    batch.verify(place, batch.leaf(walk.bound, bytes.fromhex(said.commitment), bytes.fromhex(said.timelock)))
    return f"number {said.batch.index + 1} of {said.batch.size} epochs committed under one root"


def _anchor(walk: _Walk) -> str:
    if walk.checkpoint is None:
        raise NotChecked("no checkpoint that can be believed")
    context, due = walk.bound, walk.network.time_of(walk.bound.mix_round)
    stamp = walk.stamp_of(walk.checkpoint)
    if stamp is None:
        if walk.reached(context.mix_round):
            raise Fault("unanchored", f"no block holds the commitment, and round {context.mix_round} is out")
        raise Pending("no block holds it yet")
    spare = due - stamp.block_time
    if spare < ANCHOR_MARGIN:
        raise Fault(
            "late_commitment",
            f"block {stamp.block} holds it {spare} s before round {context.mix_round}, at least {ANCHOR_MARGIN} needed",
        )
    asked = "confirmed by the chain" if walk.confirm else "as stated; ask the chain for this block"
    return f"block {stamp.block}, {spare} s before round {context.mix_round} ({asked})"


def _steps(walk: _Walk) -> str:
    said = []
    for number, text in enumerate(walk.epoch.steps):
        where = f"step {number}"
        found = walk.spoken(verify_receipt(text.encode(), log=walk.key).leaf, EpochStep, where).predicate
        if found.statement != walk.statement.digest:
            raise SeedError("a step of another epoch", where=where)
        if str(found.step) in said:
            raise Fault("said_twice", f"two statements say that the epoch is {found.step}")
        said.append(str(found.step))
        if found.step is Step.VOID:
            walk.void = found.reason or "void"
        if found.step is Step.OPEN:
            walk.opened, walk.roster = found, found.roster
    return ", ".join(said) or "none so far"


def _beacon(walk: _Walk) -> str:
    round_, text = walk.bound.mix_round, walk.epoch.mix_signature
    if text is None:
        raise Pending(f"round {round_} is not in the file" if walk.reached(round_) else f"round {round_} is not out")
    signature = bytes.fromhex(text)
    beacon.verify(round_, signature, network=walk.network)
    walk.mix = signature
    return f"round {round_} verified" + ("" if walk.network.is_quicknet else " (REHEARSAL, not quicknet)")


def _reveal(walk: _Walk) -> str:
    context, text = walk.bound, walk.epoch.reveal
    if text is None:
        if walk.void:
            raise NotChecked(f"the epoch is void: {walk.void}")
        if walk.now > walk.network.time_of(context.open_round) + REVEAL_GRACE:
            raise Fault("missing_reveal", f"round {context.open_round} is long out and nothing was revealed")
        raise Pending(f"due after round {context.open_round}")
    proven = verify_receipt(text.encode(), log=walk.key)
    found = walk.spoken(proven.leaf, SeedReveal, "reveal")
    said = found.predicate
    if said.statement != walk.statement.digest or said.commitment != walk.statement.predicate.commitment:
        raise SeedError("the reveal is of another commitment", where="reveal", got=said.statement)
    walk.revealed = found
    _one_log(walk, proven.signed.checkpoint)
    stamp = walk.stamp_of(proven.signed.checkpoint)
    if stamp is not None and stamp.block_time < walk.network.time_of(context.open_round):
        raise Fault("early_reveal", f"block {stamp.block} holds the secret before round {context.open_round}")
    if not walk.reached(context.open_round):
        raise Fault("early_reveal", f"the secret is out and round {context.open_round} is not")
    if said.mix_signature != walk.epoch.mix_signature:
        _check_stated_beacon(walk, bytes.fromhex(said.mix_signature))
    return f"logged as leaf {proven.index}"


def _check_stated_beacon(walk: _Walk, signature: bytes) -> None:
    try:
        beacon.verify(walk.bound.mix_round, signature, network=walk.network)
    except BeaconInvalid as error:
        raise Fault("wrong_beacon", f"the reveal names what the beacon never signed: {error.what}") from None
    walk.mix = walk.mix or signature


def _one_log(walk: _Walk, later: Checkpoint) -> None:
    """The reveal's tree continues the commitment's: nobody was shown another log."""
    earlier, path = walk.checkpoint, walk.epoch.consistency
    if earlier is None or path is None:
        raise ProofInvalid("no proof that both are in one log", where="consistency")
    verify_consistency(earlier.size, later.size, tuple(map(bytes.fromhex, path)), earlier.root, later.root)


def _opening(walk: _Walk) -> str:
    if walk.revealed is None:
        raise NotChecked("nothing was revealed")
    secret = bytes.fromhex(walk.revealed.predicate.secret)
    try:
        check_opening(walk.bound, secret, bytes.fromhex(walk.statement.predicate.commitment))
    except CommitmentMismatch as error:
        raise Fault("wrong_opening", f"{error.what}: it opens {error.got}") from None
    walk.secret = secret
    return "the revealed secret opens the commitment"


def _timelock(walk: _Walk) -> str:
    said, text = walk.statement.predicate, walk.epoch.open_signature
    round_ = said.open_round
    try:
        timelock.check_shape(bytes.fromhex(said.timelock), round_)
        if text is None:
            raise Pending(
                f"round {round_} is not in the file" if walk.reached(round_) else f"round {round_} is not out"
            )
        secret = timelock.open_(bytes.fromhex(said.timelock), round_, bytes.fromhex(text), network=walk.network)
    except TimelockInvalid as error:
        raise Fault("timelock_does_not_open", str(error)) from None
    try:
        check_opening(walk.bound, secret, bytes.fromhex(said.commitment))
    except CommitmentMismatch:
        raise Fault("timelock_other_secret", "the timelock holds a secret that is not the committed one") from None
    walk.secret = walk.secret or secret
    return f"round {round_} opens it to the committed secret"


def _seed(walk: _Walk) -> str:
    if walk.secret is None or walk.mix is None:
        raise NotChecked("secret or beacon value is missing")
    walk.seed = final_seed(walk.bound, walk.secret, beacon.value(walk.mix))
    if walk.revealed is not None and not hmac.compare_digest(walk.seed.hex(), walk.revealed.predicate.seed):
        raise Fault("wrong_seed", f"the reveal states {walk.revealed.predicate.seed}, it is {walk.seed.hex()}")
    return walk.seed.hex()


def _items(walk: _Walk) -> str:
    if walk.seed is None:
        raise NotChecked("there is no seed")
    if walk.opened is None:
        raise NotChecked("the epoch was never opened to validators")
    found = items_digest(walk.seed, walk.epoch.plan, len(walk.roster))
    if found != walk.opened.evidence:
        raise Fault("other_items", f"items of {walk.opened.evidence} were handed out, the seed gives {found}")
    return f"those handed out to {len(walk.roster)} validators follow from the seed"


_LINKS: Final[tuple[tuple[str, Callable[[_Walk], str]], ...]] = (
    ("statement", _statement),
    ("inclusion", _inclusion),
    ("batch", _batch),
    ("anchor", _anchor),
    ("steps", _steps),
    ("beacon", _beacon),
    ("reveal", _reveal),
    ("opening", _opening),
    ("timelock", _timelock),
    ("seed", _seed),
    ("items", _items),
)
