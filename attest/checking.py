"""From received bytes to a statement that may be used: one function, one order of checks, fail closed.

1. The envelope is read strictly and its payload type compared.
2. The payload bytes as received are parsed (canonical form, known predicate, bounds) to learn who must have signed.
3. The signatures over those same bytes are checked, with the scheme that is signed inside and no other.
4. The signed context is compared with what is expected here: a replay from elsewhere is ``context_mismatch``.

Only then does a caller see the statement. Snapshots, seeds and decisions speak with authority, so besides the account
in their context the caller's trusted keys must have signed (t of n, distinct).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from attest import envelope as dsse
from attest.envelope import IN_TOTO, Envelope
from attest.errors import ContextMismatch, InvalidSignature, UnsupportedInput
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Verifier
from attest.predicates import Context, Decision, EpochStep, Predicate, SeedCommitment, SeedReveal, Verdicts
from attest.statement import Statement, parse

AUTHORITATIVE: Final = (Verdicts, SeedCommitment, SeedReveal, EpochStep, Decision)
"""Predicates that anybody could sign and that mean something only from trusted keys."""

P = TypeVar("P", bound=Predicate)


@dataclass(frozen=True, slots=True)
class Expected:
    """Where this verifier stands; None accepts any, and is for showing statements, not for acting on them.

    Args:
        genesis: Genesis hash of the chain, ``0x`` and 64 hex digits.
        netuid: Subnet.
        competition: Name of the competition.
        hotkey: The account that should be speaking.
    """

    genesis: str | None
    netuid: int | None
    competition: str | None = None
    hotkey: Hotkey | None = None

    def check(self, context: Context, *, where: str = "context") -> None:
        """Compare a signed context with this place.

        Raises:
            ContextMismatch: Naming the first member that differs.
        """
        pairs: tuple[tuple[str, object, object], ...] = (
            ("genesis", context.genesis, self.genesis),
            ("netuid", context.netuid, self.netuid),
            ("competition", context.competition, self.competition),
            ("hotkey", context.signer, self.hotkey),
        )
        for name, got, expected in pairs:
            if expected is not None and got != expected:
                raise ContextMismatch(
                    f"signed for another {name}",
                    where=where,
                    got=str(got),
                    expected=str(expected),
                    remedy="A statement cannot be carried over; have its hotkey sign one for this context",
                )


@dataclass(frozen=True, slots=True)
class Checked(Generic[P]):
    """A statement that was signed by whom it says, for here.

    Args:
        statement: As signed.
        predicate: The statement's predicate, by its type.
        digest: ``sha256:`` of the payload bytes; makes receiving it again idempotent.
        signers: Distinct keys that signed.
    """

    statement: Statement
    predicate: P
    digest: str
    signers: tuple[Verifier, ...]

    @property
    def context(self) -> Context:
        """Who says so, and where."""
        return self.predicate.context


def check(
    received: bytes | Envelope,
    kind: type[P],
    *,
    expected: Expected,
    trusted: Sequence[Verifier] = (),
    threshold: int = 1,
    where: str = "envelope",
) -> Checked[P]:
    """Verify an envelope that should hold a statement of ``kind``.

    Args:
        received: Envelope bytes, or an envelope that was read.
        kind: The predicate wanted.
        expected: This place.
        trusted: Keys with authority; needed for the predicates in ``AUTHORITATIVE``.
        threshold: How many distinct trusted keys must have signed.
        where: Name of the artefact, for error messages.

    Raises:
        MalformedInput: Not strict, or not what its type demands.
        UnsupportedInput: Another payload, statement or predicate type.
        InvalidKey: The account in the context is no honest key.
        InvalidSignature: A signature that must be there is not there or not good.
        ContextMismatch: Signed for another place.
    """
    envelope = dsse.read(received, where=where) if isinstance(received, bytes) else received
    if envelope.payload_type != IN_TOTO:
        raise UnsupportedInput("wrong payload type", where=where, got=envelope.payload_type, expected=IN_TOTO)
    statement = parse(envelope.payload, where=f"{where}: statement")
    predicate = statement.predicate
    if not isinstance(predicate, kind):
        raise UnsupportedInput(
            "a statement of another kind", where=where, got=statement.predicate_type, expected=kind.__name__
        )
    signers = _check_signatures(envelope, statement, trusted, threshold, where)
    expected.check(statement.context, where=f"{where}: context")
    return Checked(statement, predicate, envelope.digest, signers)


def _check_signatures(
    envelope: Envelope, statement: Statement, trusted: Sequence[Verifier], threshold: int, where: str
) -> tuple[Verifier, ...]:
    own = [key.verifier() for key in statement.must_sign()]
    signers = dsse.verify(envelope, own, threshold=len(own), where=where).signers
    if not isinstance(statement.predicate, AUTHORITATIVE):
        return signers
    if not trusted:
        raise InvalidSignature(
            "no key is trusted to say this",
            where=where,
            expected="the service's or the reviewers' public keys",
            remedy="Pin the service's key and pass it as trusted",
        )
    authorities = dsse.verify(envelope, trusted, threshold=threshold, where=where).signers
    return signers + tuple(key for key in authorities if key.keyid not in {known.keyid for known in signers})
