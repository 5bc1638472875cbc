"""``ownership/v1``: this content is this hotkey's, said openly or sealed until it is opened.

Subjects of an open claim or of an opening: ``content-root``, and where known ``nameless-root`` and ``oms-root``. The
only subject of a sealed claim is ``sealed-root``, and nothing else in it may point at the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from attest.errors import MalformedInput
from attest.predicates.fields import Digest, Hex32, Name, NullableDigest, Predicate, Prose, Revision
from attest.record import Choice, Nested, Nullable, Record, Text


class Form(StrEnum):
    """How the content is named."""

    OPEN = "open"
    SEALED = "sealed"
    OPENING = "opening"


@dataclass(frozen=True)
class Release(Record):
    """Where the content is published; the revision is a commit, never a branch."""

    repo: Name
    revision: Revision


@dataclass(frozen=True)
class SigningKey(Record):
    """Delegation: the key of the model-signing bundle, which no hotkey can be (OMS has no sr25519)."""

    algorithm: Annotated[str, Text(r"ecdsa-p256-sha256", 17)]
    spki: Digest


@dataclass(frozen=True)
class Opening(Record):
    """What unseals a sealed claim: the digest of its statement, and the nonce."""

    statement: Digest
    nonce: Hex32


@dataclass(frozen=True)
class Ownership(Predicate):
    """An ownership claim by the hotkey of its context."""

    form: Annotated[Form, Choice(Form)]
    release: Annotated[Release | None, Nullable(Nested(Release))]
    signing_key: Annotated[SigningKey | None, Nullable(Nested(SigningKey))]
    fingerprint: NullableDigest
    opening: Annotated[Opening | None, Nullable(Nested(Opening))]
    note: Prose

    def agree(self) -> None:
        """An opening opens something, nothing else does; a sealed claim says nothing of the model."""
        if (self.form is Form.OPENING) != (self.opening is not None):
            raise MalformedInput("form and opening disagree", where="Ownership.opening", got=self.form)
        told = (self.release, self.signing_key, self.fingerprint)
        if self.form is Form.SEALED and any(part is not None for part in told):
            raise MalformedInput("a sealed claim tells of the model", where="Ownership", expected="null members")
        if self.opening is not None and self.opening.statement not in self.context.parents:
            raise MalformedInput(
                "the opened statement is no parent", where="Ownership.context.parents", expected=self.opening.statement
            )
