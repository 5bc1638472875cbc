"""A snapshot that may be believed: signed by the service that is configured, for this chain and subnet.

The bytes are believed for what they are, wherever they come from: network, disk or a file somebody sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from attest import envelope as dsse
from attest.checking import Expected, check
from attest.errors import AttestError, ContextMismatch, InvalidSignature
from attest.keys.ed25519 import Ed25519Verifier
from attest.keys.hotkey import Hotkey
from attest.log.note import COSIGNATURE, NoteKey
from attest.log.proof import verify_receipt
from attest.predicates.verdict import UidVerdict, Verdicts
from attest.statement import parse

from ..errors import UsageError
from ..place import genesis_of
from ..text import printable
from .codes import Code


class Refused(Exception):
    """Bytes that are not believed, and why: a code for programs, a line for people."""

    def __init__(self, code: Code, detail: str) -> None:
        self.code, self.detail = code, printable(detail)[:500]
        super().__init__(f"{code}: {self.detail}")


@dataclass(frozen=True)
class Trust:
    """Whom to believe, about what.

    Args:
        key: The service's key; its name is the origin of the service's log.
        genesis: Genesis hash of the chain.
        netuid: Subnet.
    """

    key: NoteKey
    genesis: str
    netuid: int

    @classmethod
    def of(cls, service_key: str | NoteKey, *, netuid: int, network: str = "finney", genesis: str = "") -> Trust:
        """From what is configured; ``service_key`` is ``name+id+base64`` as ``GET /v1/service`` shows ``log_key``.

        Raises:
            UsageError: Not a service's key, not a subnet, or a network whose genesis hash is not built in.
        """
        try:
            key = service_key if isinstance(service_key, NoteKey) else NoteKey.parse(service_key)
        except AttestError as error:
            raise UsageError("not a service key", got=error.what, expected="name+id+base64") from None
        if key.kind == COSIGNATURE:
            raise UsageError("a witness's key, not a service's", got=key.name, expected="the service's log key")
        if not 0 <= netuid <= 0xFFFF:
            raise UsageError("no such subnet", got=netuid, expected="0..65535")
        return cls(key, genesis_of(network, genesis), netuid)

    @cached_property
    def verifier(self) -> Ed25519Verifier:
        """The key as it signs statements."""
        return Ed25519Verifier(self.key.public)

    @cached_property
    def account(self) -> Hotkey:
        """The service as it appears in the context of its statements."""
        return Hotkey.of(self.verifier)


@dataclass(frozen=True)
class Snapshot:
    """A verified snapshot.

    Args:
        verdicts: What was signed.
        digest: ``sha256:`` of the signed payload, its name.
        raw: The envelope as received.
    """

    verdicts: Verdicts
    digest: str
    raw: bytes = field(repr=False)

    @property
    def sequence(self) -> int:
        """Number in the service's series for this subnet."""
        return self.verdicts.sequence

    @cached_property
    def issued_at(self) -> datetime:
        """When the service says it was made."""
        return _time(self.verdicts.issued_at)

    @cached_property
    def expires_at(self) -> datetime:
        """From when on it counts for nothing."""
        return _time(self.verdicts.expires_at)

    @cached_property
    def by_hotkey(self) -> dict[str, UidVerdict]:
        """Verdict of each hotkey (prefix 42)."""
        return {verdict.hotkey: verdict for verdict in self.verdicts.verdicts}

    @cached_property
    def by_uid(self) -> dict[int, UidVerdict]:
        """Verdict by seat; a seat identifies nobody."""
        return {verdict.uid: verdict for verdict in self.verdicts.verdicts}

    @cached_property
    def missing_uids(self) -> tuple[int, ...]:
        """Gaps in the seats: uids of a subnet are dense, so each gap is somebody left out."""
        last = max(self.by_uid, default=-1)
        return tuple(uid for uid in range(last + 1) if uid not in self.by_uid)


def verify(raw: bytes, trust: Trust, *, where: str = "snapshot") -> Snapshot:
    """Believe an envelope, or say why not.

    Raises:
        Refused: Malformed, of another kind, signed by somebody else, changed, or for another chain, subnet or log.
    """
    try:
        envelope = dsse.read(raw, where=where)
        said = parse(envelope.payload, where=where).context
        if said.signer != trust.account:
            raise Refused(Code.WRONG_KEY, f"signed by {said.signer}, expected {trust.account}")
        expected = Expected(genesis=trust.genesis, netuid=trust.netuid, hotkey=trust.account)
        checked = check(envelope, Verdicts, expected=expected, trusted=[trust.verifier], where=where)
    except ContextMismatch as error:
        code = Code.WRONG_NETUID if said.netuid != trust.netuid else Code.WRONG_CHAIN
        raise Refused(code, str(error)) from None
    except InvalidSignature as error:
        raise Refused(Code.BAD_SIGNATURE, str(error)) from None
    except AttestError as error:
        raise Refused(Code.MALFORMED, str(error)) from None
    if checked.predicate.log.origin != trust.key.name:
        raise Refused(Code.WRONG_LOG, f"speaks of the log {checked.predicate.log.origin}, expected {trust.key.name}")
    return Snapshot(checked.predicate, checked.digest, raw)


def check_logged(snapshot: Snapshot, receipt: bytes, trust: Trust) -> int:
    """Check that a snapshot is in the service's log, where everybody can see it.

    Args:
        snapshot: Verified.
        receipt: ``tlog-proof`` file, as ``GET /v1/log/proof?index=N`` gives it.
        trust: The service; its key signs the log too.

    Returns:
        Number of the leaf.

    Raises:
        Refused: The receipt is not good, or is another statement's.
    """
    from ..attestations.record import digest_of_leaf

    try:
        proven = verify_receipt(receipt, log=trust.key)
        logged = digest_of_leaf(proven.leaf)
    except AttestError as error:
        raise Refused(Code.NOT_LOGGED, str(error)) from None
    if logged != snapshot.digest:
        raise Refused(Code.NOT_LOGGED, f"the receipt is for {logged}, not for {snapshot.digest}")
    return proven.index


def _time(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
