"""The links of an epoch's check, one function each: it returns what it found, or raises how the link stands.

Statement and inclusion come out of one receipt: a leaf is believed only after its hash was proven to be in the tree.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from attest.errors import CommitmentMismatch
from attest.log.errors import ProofInvalid
from attest.log.proof import parse_receipt, verify_receipt
from attest.predicates import SeedCommitment

from . import batch, beacon, timelock
from .anchored import anchored
from .derive import Context, check_opening, final_seed
from .errors import SeedError, TimelockInvalid
from .plan import items_digest
from .report import Fault, NotChecked, Pending, Unproven
from .told import revealed, stepped
from .walk import Walk


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
    walk.checkpoint, walk.leaf = proven.signed.checkpoint, proven.index
    return f"leaf {proven.index} of {walk.checkpoint.size} in the log"


def _batch(walk: Walk) -> str:
    said, path = walk.statement.predicate, walk.epoch.batch_path
    if said.batch is None:
        return "committed alone, not ahead under a common root"
    root = bytes.fromhex(said.batch.root.removeprefix("sha256:"))
    place = batch.Place(root, said.batch.index, said.batch.size, tuple(map(bytes.fromhex, path or ())))
    batch.verify(place, batch.leaf(walk.bound, bytes.fromhex(said.commitment), bytes.fromhex(said.timelock)))
    return f"number {said.batch.index + 1} of {said.batch.size} epochs committed under one root"


def _beacon(walk: Walk) -> str:
    round_, text = walk.bound.mix_round, walk.epoch.mix_signature
    if text is None:
        raise _absent(walk, round_, used=walk.opened is not None)
    signature = bytes.fromhex(text)
    beacon.verify(round_, signature, network=walk.network)
    walk.mix = signature
    return f"round {round_} verified" + ("" if walk.network.is_quicknet else " (REHEARSAL, not quicknet)")


def _absent(walk: Walk, round_: int, *, used: bool) -> Pending | Unproven:
    """How a beacon value stands that the file lacks; one that the service went on with by its own word was left out."""
    if used:
        return Unproven("beacon_left_out", f"round {round_} is not in the file, though the epoch went on with it")
    return Pending(f"round {round_} is not in the file" if walk.reached(round_) else f"round {round_} is not out")


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
            raise _absent(walk, round_, used=walk.revealed is not None)
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
    ("anchor", anchored),
    ("steps", stepped),
    ("beacon", _beacon),
    ("reveal", revealed),
    ("opening", _opening),
    ("timelock", _timelock),
    ("seed", _seed),
    ("items", _items),
)
