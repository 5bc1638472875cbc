"""Ownership claims: made, checked, sealed before publishing and opened after.

A sealed claim commits to H = SHA-256(domain | genesis | netuid | hotkey | scheme | root | nonce), each part
length-prefixed. It can be logged and anchored while the model is still secret. Whoever copies H gains nothing: the
copier's own statement carries another hotkey, under which the nonce does not give H. The opened claim counts from the
sealed one's anchor.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from attest import statement as statements
from attest.checking import Checked, Expected, check
from attest.envelope import Envelope
from attest.errors import CommitmentMismatch, ContentMismatch, MalformedInput
from attest.keys.hotkey import Hotkey
from attest.keys.p256 import P256Verifier
from attest.predicates import Context, Ownership
from attest.predicates.ownership import Form, Opening, Release, SigningKey
from attest.statement import Statement, state

SEALED_DOMAIN: Final = b"model-forensics/sealed-claim/v1"
NONCE_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Roots:
    """What a model is known by; each is ``sha256:`` and 64 hex digits.

    Args:
        content: Root over names and values; survives re-sharding.
        nameless: Root over values alone; survives renames.
        oms: Root of the model-signing bundle, over files.
    """

    content: str
    nameless: str | None = None
    oms: str | None = None

    def subjects(self) -> dict[str, str]:
        """The roots that are known, by subject name."""
        named = {
            statements.CONTENT_ROOT: self.content,
            statements.NAMELESS_ROOT: self.nameless,
            statements.OMS_ROOT: self.oms,
        }
        return {name: root for name, root in named.items() if root is not None}


def own(
    context: Context,
    roots: Roots,
    *,
    release: Release | None = None,
    signing_key: P256Verifier | None = None,
    fingerprint: str | None = None,
    note: str = "",
) -> Statement:
    """The statement of an open ownership claim, to be signed by the context's hotkey.

    Args:
        context: Hotkey and place.
        roots: What the model is known by.
        release: Where it is published, if it is.
        signing_key: The key of the model-signing bundle, to which the hotkey delegates.
        fingerprint: ``sha256:`` of the fingerprint file.
        note: Text for people.
    """
    return state(
        Ownership(
            context=context,
            form=Form.OPEN,
            release=release,
            signing_key=_delegate(signing_key),
            fingerprint=fingerprint,
            opening=None,
            note=note,
        ),
        **roots.subjects(),
    )


def sealed_digest(hotkey: Hotkey, *, genesis: str, netuid: int, root: str, nonce: bytes) -> str:
    """H of a sealed claim as ``sha256:`` text.

    Args:
        hotkey: Who will be able to open it.
        genesis: ``0x`` and 64 hex digits.
        netuid: Subnet.
        root: Content root, ``sha256:`` text.
        nonce: 32 random bytes, kept secret until the opening.

    Raises:
        MalformedInput: The nonce is not 32 bytes.
    """
    if len(nonce) != NONCE_BYTES:
        raise MalformedInput("the nonce has a wrong length", where="sealed claim", got=len(nonce), expected=NONCE_BYTES)
    parts = (
        SEALED_DOMAIN,
        bytes.fromhex(genesis.removeprefix("0x")),
        netuid.to_bytes(2),
        hotkey.public_bytes,
        hotkey.scheme.encode(),
        bytes.fromhex(root.removeprefix("sha256:")),
        nonce,
    )
    return "sha256:" + sha256(b"".join(len(part).to_bytes(4) + part for part in parts)).hexdigest()


def seal(context: Context, root: str, *, nonce: bytes) -> Statement:
    """The statement of a sealed claim over a content root; says nothing about the model."""
    sealed = sealed_digest(context.signer, genesis=context.genesis, netuid=context.netuid, root=root, nonce=nonce)
    return state(
        Ownership(
            context=context,
            form=Form.SEALED,
            release=None,
            signing_key=None,
            fingerprint=None,
            opening=None,
            note="",
        ),
        sealed_root=sealed,
    )


def open_sealed(
    sealed: Statement,
    context: Context,
    roots: Roots,
    *,
    nonce: bytes,
    release: Release | None = None,
    signing_key: P256Verifier | None = None,
    fingerprint: str | None = None,
    note: str = "",
) -> Statement:
    """The statement that opens a sealed claim; its context must name the sealed statement as a parent.

    Raises:
        CommitmentMismatch: This hotkey, root and nonce do not give what was sealed.
        MalformedInput: The sealed statement is not among the context's parents.
    """
    opening = state(
        Ownership(
            context=context,
            form=Form.OPENING,
            release=release,
            signing_key=_delegate(signing_key),
            fingerprint=fingerprint,
            opening=Opening(statement=sealed.digest, nonce=nonce.hex()),
            note=note,
        ),
        **roots.subjects(),
    )
    _check_opens(opening, sealed)
    return opening


def check_ownership(
    received: bytes | Envelope, *, expected: Expected, roots: Roots | None = None, where: str = "claim"
) -> Checked[Ownership]:
    """Verify a claim of any form, and where the model is at hand, that the claim is about it.

    Args:
        received: Envelope bytes, or an envelope that was read.
        expected: This place.
        roots: Roots measured from the model; those the claim names must be equal, and it must name the content root.
        where: Name of the artefact, for error messages.

    Raises:
        ContentMismatch: The claim is about another model, or is sealed.
        AttestError: See ``attest.checking.check``.
    """
    claim = check(received, Ownership, expected=expected, where=where)
    for name, measured in (roots.subjects() if roots else {}).items():
        claimed = claim.statement.digest_of(name)
        if claimed is None and name != statements.CONTENT_ROOT:
            continue
        if claimed != measured:
            raise ContentMismatch(
                f"{name} is not what the claim says", where=where, got=measured, expected=claimed or "a sealed claim"
            )
    return claim


def check_opening(opening: Checked[Ownership], sealed: Checked[Ownership]) -> None:
    """Verify that one checked claim opens another.

    Raises:
        CommitmentMismatch: Not an opening, of another statement, by another hotkey, elsewhere, or with another root.
    """
    _check_opens(opening.statement, sealed.statement)


def _check_opens(opening: Statement, sealed: Statement) -> None:
    opened, hidden = opening.predicate, sealed.predicate
    if not isinstance(opened, Ownership) or opened.opening is None:
        raise CommitmentMismatch("not an opening", where="opening", got=opening.predicate_type)
    if not isinstance(hidden, Ownership) or hidden.form is not Form.SEALED:
        raise CommitmentMismatch("what is opened was not sealed", where="opening", got=sealed.predicate_type)
    if opened.opening.statement != sealed.digest:
        raise CommitmentMismatch(
            "opens another statement", where="opening", got=sealed.digest, expected=opened.opening.statement
        )
    context, root = opening.context, opening.digest_of(statements.CONTENT_ROOT) or ""
    if context.signer != hidden.context.signer:
        raise CommitmentMismatch(
            "only the hotkey that sealed can open",
            where="opening",
            got=str(context.signer),
            expected=str(hidden.context.signer),
        )
    got = sealed_digest(
        context.signer,
        genesis=context.genesis,
        netuid=context.netuid,
        root=root,
        nonce=bytes.fromhex(opened.opening.nonce),
    )
    expected = sealed.digest_of(statements.SEALED_ROOT) or ""
    if not hmac.compare_digest(got, expected):
        raise CommitmentMismatch(
            "this root and nonce are not what was sealed", where="opening", got=got, expected=expected
        )


def _delegate(key: P256Verifier | None) -> SigningKey | None:
    return None if key is None else SigningKey(algorithm=str(key.scheme), spki=key.spki_digest)
