"""The links of an epoch's check, one function each: it returns what it found, or raises how the link stands.

Statement and inclusion come out of one receipt: a leaf is believed only after its hash was proven to be in the tree.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from attest.errors import CommitmentMismatch
from attest.log.errors import ProofInvalid
from attest.log.merkle import verify_consistency
from attest.log.note import Checkpoint
from attest.log.proof import parse_receipt, verify_receipt
from attest.predicates import EpochStep, SeedCommitment, SeedReveal
from attest.predicates.seeds import Step

from . import batch, beacon, timelock
from .derive import Context, check_opening, final_seed
from .errors import BeaconInvalid, SeedError, TimelockInvalid
from .plan import items_digest
from .report import Fault, NotChecked, Pending
from .walk import Walk

ANCHOR_MARGIN: Final = 60
"""Seconds that the anchoring block must precede R_mix: more than a block's own clock can be wrong (12 s blocks)."""
REVEAL_GRACE: Final = 3600
"""Seconds after R_open within which the reveal must be in the file."""


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


def _statement(walk: Walk) -> str:
    leaf = parse_receipt(walk.epoch.commitment.encode()).leaf
    if leaf is None:
        raise ProofInvalid("the receipt holds no statement", where="commitment")
    found = walk.spoken(leaf, SeedCommitment, "commitment")
    context = context_of(found.predicate)
    if context.chain != walk.network.chain or context.pool != walk.epoch.plan.digest:
        raise SeedError("the plan in the file is not the one committed to", where="plan", code="plan_mismatch")
    walk.committed, walk.context = found, context
    return f"epoch {context.epoch} of netuid {context.netuid}, {context.competition}, signed by {walk.key.name}"


def _inclusion(walk: Walk) -> str:
    proven = verify_receipt(walk.epoch.commitment.encode(), log=walk.key)
    walk.checkpoint = proven.signed.checkpoint
    return f"leaf {proven.index} of {walk.checkpoint.size} in the log"


def _batch(walk: Walk) -> str:
    said, path = walk.statement.predicate, walk.epoch.batch_path
    if said.batch is None:
        return "committed alone, not ahead under a common root"
    root = bytes.fromhex(said.batch.root.removeprefix("sha256:"))
    place = batch.Place(root, said.batch.index, said.batch.size, tuple(map(bytes.fromhex, path or ())))
    batch.verify(place, batch.leaf(walk.bound, bytes.fromhex(said.commitment), bytes.fromhex(said.timelock)))
    return f"number {said.batch.index + 1} of {said.batch.size} epochs committed under one root"


def _anchor(walk: Walk) -> str:
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


def _steps(walk: Walk) -> str:
    said: list[str] = []
    leaves: set[bytes] = set()
    for number, text in enumerate(walk.epoch.steps):
        where = f"step {number}"
        leaf = verify_receipt(text.encode(), log=walk.key).leaf
        if leaf in leaves:
            raise SeedError("one step is given twice", where=where, expected="every statement once")
        leaves.add(leaf)
        found = walk.spoken(leaf, EpochStep, where).predicate
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


def _beacon(walk: Walk) -> str:
    round_, text = walk.bound.mix_round, walk.epoch.mix_signature
    if text is None:
        raise Pending(f"round {round_} is not in the file" if walk.reached(round_) else f"round {round_} is not out")
    signature = bytes.fromhex(text)
    beacon.verify(round_, signature, network=walk.network)
    walk.mix = signature
    return f"round {round_} verified" + ("" if walk.network.is_quicknet else " (REHEARSAL, not quicknet)")


def _reveal(walk: Walk) -> str:
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


def _check_stated_beacon(walk: Walk, signature: bytes) -> None:
    try:
        beacon.verify(walk.bound.mix_round, signature, network=walk.network)
    except BeaconInvalid as error:
        raise Fault("wrong_beacon", f"the reveal names what the beacon never signed: {error.what}") from None
    walk.mix = walk.mix or signature


def _one_log(walk: Walk, later: Checkpoint) -> None:
    """The reveal's tree continues the commitment's: nobody was shown another log."""
    earlier, path = walk.checkpoint, walk.epoch.consistency
    if earlier is None or path is None:
        raise ProofInvalid("no proof that both are in one log", where="consistency")
    verify_consistency(earlier.size, later.size, tuple(map(bytes.fromhex, path)), earlier.root, later.root)


def _opening(walk: Walk) -> str:
    if walk.revealed is None:
        raise NotChecked("nothing was revealed")
    secret = bytes.fromhex(walk.revealed.predicate.secret)
    try:
        check_opening(walk.bound, secret, bytes.fromhex(walk.statement.predicate.commitment))
    except CommitmentMismatch as error:
        raise Fault("wrong_opening", f"{error.what}: it opens {error.got}") from None
    walk.secret = secret
    return "the revealed secret opens the commitment"


def _timelock(walk: Walk) -> str:
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


def _seed(walk: Walk) -> str:
    if walk.secret is None or walk.mix is None:
        raise NotChecked("secret or beacon value is missing")
    walk.seed = final_seed(walk.bound, walk.secret, beacon.value(walk.mix))
    if walk.revealed is not None and not hmac.compare_digest(walk.seed.hex(), walk.revealed.predicate.seed):
        raise Fault("wrong_seed", f"the reveal states {walk.revealed.predicate.seed}, it is {walk.seed.hex()}")
    return walk.seed.hex()


def _items(walk: Walk) -> str:
    if walk.seed is None:
        raise NotChecked("there is no seed")
    if walk.opened is None:
        raise NotChecked("the epoch was never opened to validators")
    found = items_digest(walk.seed, walk.epoch.plan, len(walk.roster))
    if found != walk.opened.evidence:
        raise Fault("other_items", f"items of {walk.opened.evidence} were handed out, the seed gives {found}")
    return f"those handed out to {len(walk.roster)} validators follow from the seed"


LINKS: Final[tuple[tuple[str, Callable[[Walk], str]], ...]] = (
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
