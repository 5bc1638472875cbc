"""in-toto Statement v1 (github.com/in-toto/attestation, spec/v1/statement.md) around our predicates.

A statement says of some subjects, each a name and a SHA-256, what its predicate says. Our predicate types are read
strictly: canonical bytes, no unknown members, and exactly the subjects that the predicate needs. A statement is named
by the SHA-256 of its payload bytes, so the same claim signed again (sr25519 is randomised, ECDSA has two forms) is
the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Final

from attest import canonical
from attest.errors import MalformedInput, UnsupportedInput
from attest.keys.hotkey import Hotkey
from attest.predicates import (
    Context,
    Decision,
    EpochStep,
    KeyRotation,
    Lineage,
    Ownership,
    Predicate,
    SeedCommitment,
    SeedReveal,
    Verdicts,
)
from attest.predicates.fields import Hex32
from attest.predicates.ownership import Form
from attest.record import ListOf, Nested, Record, Schema, Text

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
NAMESPACE: Final = "urn:model-forensics:"
"""Prefix of our predicate types: ``urn:model-forensics:ownership/v1``."""
MAX_SUBJECTS: Final = 8

CONTENT_ROOT: Final = "content-root"
NAMELESS_ROOT: Final = "nameless-root"
OMS_ROOT: Final = "oms-root"
SEALED_ROOT: Final = "sealed-root"

PREDICATES: Final[dict[str, type[Predicate]]] = {
    NAMESPACE + "ownership/v1": Ownership,
    NAMESPACE + "lineage/v1": Lineage,
    NAMESPACE + "verdict/v1": Verdicts,
    NAMESPACE + "seed-commitment/v1": SeedCommitment,
    NAMESPACE + "seed-reveal/v1": SeedReveal,
    NAMESPACE + "epoch-step/v1": EpochStep,
    NAMESPACE + "decision/v1": Decision,
    NAMESPACE + "key-rotation/v1": KeyRotation,
}
"""Every predicate type this version knows."""
_TYPE_OF: Final = {record: name for name, record in PREDICATES.items()}


@dataclass(frozen=True)
class DigestSet(Record):
    """An in-toto DigestSet with exactly one algorithm."""

    sha256: Hex32


@dataclass(frozen=True)
class Subject(Record):
    """One thing that a statement is about."""

    name: Annotated[str, Text(r"[a-z][a-z0-9-]*", 64, 1)]
    digest: Annotated[DigestSet, Nested(DigestSet)]

    @classmethod
    def of(cls, name: str, digest: str) -> Subject:
        """A subject by its name and ``sha256:`` digest (bare hex is taken too)."""
        return cls(name, DigestSet(digest.removeprefix("sha256:")))


_SUBJECTS: Final = ListOf(Nested(Subject), MAX_SUBJECTS, 1)


@dataclass(frozen=True)
class Statement:
    """Subjects and what is said of them.

    Args:
        subjects: Distinct names, exactly those that the predicate needs.
        predicate: One of ``PREDICATES``.

    Raises:
        MalformedInput: A subject is missing, unknown, named twice, or contradicts the predicate.
    """

    subjects: tuple[Subject, ...]
    predicate: Predicate

    def __post_init__(self) -> None:
        _SUBJECTS.check(self.subjects, "subject")
        names = [subject.name for subject in self.subjects]
        required, optional = _subject_names(self.predicate)
        if len(set(names)) != len(names) or not required <= set(names) <= required | optional:
            raise MalformedInput("wrong subjects", where="subject", got=names, expected=sorted(required | optional))
        for name, digest in _implied(self.predicate).items():
            if self.digest_of(name) != digest:
                raise MalformedInput(
                    f"subject {name} contradicts the predicate",
                    where="subject",
                    got=self.digest_of(name),
                    expected=digest,
                )

    @property
    def context(self) -> Context:
        """Who says so, and where."""
        return self.predicate.context

    @property
    def predicate_type(self) -> str:
        """The predicate's URI."""
        return _TYPE_OF[type(self.predicate)]

    @property
    def digest(self) -> str:
        """``sha256:`` of the payload: the statement's name."""
        return "sha256:" + sha256(self.payload()).hexdigest()

    def digest_of(self, name: str) -> str | None:
        """``sha256:`` digest of the subject of that name, if it is there."""
        return next(("sha256:" + s.digest.sha256 for s in self.subjects if s.name == name), None)

    def payload(self) -> bytes:
        """The canonical bytes that are signed."""
        return canonical.write(
            {
                "_type": STATEMENT_TYPE,
                "subject": _SUBJECTS.write(self.subjects),
                "predicateType": self.predicate_type,
                "predicate": self.predicate.write(),
            }
        )

    def must_sign(self) -> tuple[Hotkey, ...]:
        """The accounts without whose signatures the statement is worth nothing."""
        if isinstance(self.predicate, KeyRotation):
            return self.predicate.must_sign
        return (self.context.signer,)


def state(predicate: Predicate, **subjects: str) -> Statement:
    """A statement with the subjects its predicate implies, and those given (``content_root="sha256:..."``)."""
    named = {name.replace("_", "-"): digest for name, digest in subjects.items()} | _implied(predicate)
    return Statement(tuple(Subject.of(name, digest) for name, digest in sorted(named.items())), predicate)


def parse(payload: bytes, *, where: str = "statement") -> Statement:
    """Read a statement of ours from payload bytes; proves nothing about who signed them.

    Raises:
        UnsupportedInput: Another statement type or an unknown predicate type.
        MalformedInput: Not canonical, or not what its predicate type demands.
    """
    members = canonical.read_canonical(payload, where=where)
    if members.get("_type") != STATEMENT_TYPE:
        raise UnsupportedInput("wrong statement type", where=where, got=members.get("_type"), expected=STATEMENT_TYPE)
    kind = members.get("predicateType")
    record = PREDICATES.get(kind) if isinstance(kind, str) else None
    if record is None:
        raise UnsupportedInput("unknown predicate type", where=where, got=kind, expected=", ".join(PREDICATES))
    if set(members) != {"_type", "subject", "predicateType", "predicate"}:
        raise MalformedInput("wrong members", where=where, got=sorted(members))
    subjects = _SUBJECTS.read(members["subject"], f"{where}: subject")
    return Statement(subjects, record.read(members["predicate"], where=f"{where}: predicate"))


def json_schema(predicate_type: str) -> Schema:
    """JSON Schema 2020-12 of the whole payload of one predicate type."""
    record = PREDICATES[predicate_type]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": predicate_type.replace(NAMESPACE, NAMESPACE + "schema:"),
        "title": predicate_type,
        "description": "Payload of a DSSE envelope, payloadType application/vnd.in-toto+json, RFC 8785 canonical JSON.",
        "type": "object",
        "properties": {
            "_type": {"const": STATEMENT_TYPE},
            "subject": _SUBJECTS.json_schema(),
            "predicateType": {"const": predicate_type},
            "predicate": record.json_schema(),
        },
        "required": ["_type", "subject", "predicateType", "predicate"],
        "additionalProperties": False,
    }


def subnet_digest(genesis: str, netuid: int) -> str:
    """``sha256:`` of the 32 genesis bytes and the big-endian u16 netuid: the subject of a snapshot."""
    return "sha256:" + sha256(bytes.fromhex(genesis[2:]) + netuid.to_bytes(2)).hexdigest()


def _subject_names(predicate: Predicate) -> tuple[set[str], set[str]]:
    """Names that must, and names that may be there."""
    if isinstance(predicate, Ownership):
        if predicate.form is Form.SEALED:
            return {SEALED_ROOT}, set()
        return {CONTENT_ROOT}, {NAMELESS_ROOT, OMS_ROOT}
    if isinstance(predicate, Lineage):
        return {CONTENT_ROOT}, {NAMELESS_ROOT, OMS_ROOT}
    return set(_implied(predicate)), set()


def _implied(predicate: Predicate) -> dict[str, str]:
    """Subjects whose digest follows from the predicate."""
    if isinstance(predicate, Verdicts):
        return {"subnet": subnet_digest(predicate.genesis, predicate.netuid)}
    if isinstance(predicate, SeedCommitment | SeedReveal | EpochStep):
        return {"seed-commitment": "sha256:" + predicate.commitment}
    if isinstance(predicate, Decision):
        return {"verdict": predicate.verdict}
    if isinstance(predicate, KeyRotation):
        return {"successor-key": "sha256:" + sha256(predicate.successor.key.public_bytes).hexdigest()}
    return {}
