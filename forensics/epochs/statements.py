"""What the service says about an epoch: commitment, steps, reveal; each signed once and logged as signed."""

from __future__ import annotations

from datetime import UTC, datetime

from attest import envelope
from attest.keys.ed25519 import Ed25519Signer
from attest.keys.hotkey import Hotkey
from attest.predicates import Context as Speaking
from attest.predicates import EpochStep, Predicate, SeedCommitment, SeedReveal
from attest.predicates.seeds import Batch, Step
from attest.seeds import batch
from attest.seeds.derive import Context
from attest.statement import state

from ..place import Place
from .machine import Moment
from .records import Epoch

COMMITMENT, REVEAL = "commitment", "reveal"


def speaking(contest: Place, signer: Ed25519Signer, *, at: datetime, parents: tuple[str, ...] = ()) -> Speaking:
    """The service's context in this contest."""
    return Speaking.of(
        Hotkey.of(signer.verifier),
        genesis=contest.genesis,
        netuid=contest.netuid,
        competition=contest.competition,
        claimed_at=at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        parents=parents,
    )


def commitment(
    spoken: Speaking, bound: Context, *, committed: bytes, timelock: bytes, place: batch.Place
) -> SeedCommitment:
    """C of an epoch, with everything that goes into it but the secret."""
    return SeedCommitment(
        context=spoken,
        epoch=bound.epoch,
        commitment=committed.hex(),
        pool="sha256:" + bound.pool.hex(),
        generator="sha256:" + bound.generator.hex(),
        chain=bound.chain.hex(),
        mix_round=bound.mix_round,
        open_round=bound.open_round,
        timelock=timelock.hex(),
        batch=Batch(root="sha256:" + place.root.hex(), index=place.index, size=place.size),
    )


def step(
    spoken: Speaking,
    epoch: Epoch,
    what: Step,
    moment: Moment,
    *,
    evidence: str | None = None,
    reason: str | None = None,
    roster: tuple[str, ...] = (),
) -> EpochStep:
    """A step of an epoch; the commitment's statement is the first parent of ``spoken``."""
    return EpochStep(
        context=spoken,
        epoch=epoch.number,
        commitment=epoch.commitment.hex(),
        statement=spoken.parents[0],
        step=what,
        block=moment.block,
        block_time=moment.time,
        evidence=evidence,
        reason=reason,
        roster=roster,
    )


def reveal(spoken: Speaking, epoch: Epoch, *, secret: bytes, mix_signature: bytes, seed: bytes) -> SeedReveal:
    """The secret and the seed; the commitment's statement is the first parent of ``spoken``."""
    return SeedReveal(
        context=spoken,
        epoch=epoch.number,
        commitment=epoch.commitment.hex(),
        statement=spoken.parents[0],
        secret=secret.hex(),
        mix_signature=mix_signature.hex(),
        seed=seed.hex(),
        log_receipt=None,
    )


def signed(predicate: Predicate, signer: Ed25519Signer) -> tuple[str, bytes]:
    """Digest of the statement and the envelope that goes into the log."""
    statement = state(predicate)
    return statement.digest, envelope.sign(statement.payload(), [signer]).to_json()
