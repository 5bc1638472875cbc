"""Ownership: open and sealed claims, and who can open what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from attest import claims
from attest import envelope as dsse
from attest.checking import Checked, check
from attest.errors import CommitmentMismatch, ContentMismatch, InvalidSignature, MalformedInput
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Scheme, Signer
from attest.predicates import Ownership
from attest.statement import SEALED_ROOT, Statement
from tests.attest.material import (
    BUNDLE_KEY,
    COLD,
    GENESIS,
    HERE,
    MINER,
    NETUID,
    NONCE,
    RIVAL,
    ROOTS,
    context,
    digest,
    hotkey,
    ownership,
)


def checked(statement: Statement, signer: Signer = MINER) -> Checked[Ownership]:
    return check(dsse.sign(statement.payload(), [signer]).to_json(), Ownership, expected=HERE)


def sealed(signer: Signer = MINER) -> Statement:
    return claims.seal(context(signer), ROOTS.content, nonce=NONCE)


def opening(of: Statement, signer: Signer = MINER, *, roots: claims.Roots = ROOTS, nonce: bytes = NONCE) -> Statement:
    return claims.open_sealed(of, context(signer, parents=(of.digest,)), roots, nonce=nonce)


def test_a_claim_is_about_the_model_at_hand() -> None:
    received = dsse.sign(ownership().payload(), [MINER]).to_json()
    claim = claims.check_ownership(received, expected=HERE, roots=ROOTS)
    assert claim.predicate.signing_key is not None
    assert claim.predicate.signing_key.spki == BUNDLE_KEY.verifier.spki_digest
    claims.check_ownership(received, expected=HERE, roots=claims.Roots(ROOTS.content))
    for other in (
        replace(ROOTS, content=digest("x")),
        replace(ROOTS, nameless=digest("x")),
        replace(ROOTS, oms=digest("x")),
    ):
        with pytest.raises(ContentMismatch) as caught:
            claims.check_ownership(received, expected=HERE, roots=other)
        assert caught.value.code == "content_mismatch"


def test_a_root_the_claim_does_not_name_is_not_compared() -> None:
    statement = claims.own(context(MINER), claims.Roots(ROOTS.content))
    received = dsse.sign(statement.payload(), [MINER])
    claims.check_ownership(received, expected=HERE, roots=ROOTS)


def test_a_sealed_claim_says_nothing_and_is_opened_by_its_hotkey() -> None:
    hidden = sealed()
    for secret in (ROOTS.content[7:], NONCE.hex()):
        assert secret.encode() not in hidden.payload()
    claims.check_opening(checked(opening(hidden)), checked(hidden))
    with pytest.raises(ContentMismatch):
        claims.check_ownership(dsse.sign(hidden.payload(), [MINER]), expected=HERE, roots=ROOTS)


def test_a_copied_h_cannot_be_opened_by_another_hotkey() -> None:
    h = sealed().digest_of(SEALED_ROOT)
    assert h is not None
    copied = Statement(sealed(RIVAL).subjects, sealed(RIVAL).predicate)
    object.__setattr__(copied, "subjects", sealed().subjects)  # the rival's own statement, with the miner's H in it
    rivals = checked(copied, RIVAL)
    assert rivals.statement.digest_of(SEALED_ROOT) == h
    with pytest.raises(CommitmentMismatch, match="not what was sealed"):
        opening(copied, RIVAL)
    with pytest.raises(CommitmentMismatch, match="only the hotkey"):
        opening(sealed(), RIVAL)
    with pytest.raises(CommitmentMismatch):
        claims.check_opening(checked(opening(sealed())), rivals)


@pytest.mark.parametrize("wrong", ["root", "nonce"])
def test_another_root_or_nonce_does_not_open(wrong: str) -> None:
    roots = replace(ROOTS, content=digest("other")) if wrong == "root" else ROOTS
    with pytest.raises(CommitmentMismatch) as caught:
        opening(sealed(), roots=roots, nonce=NONCE if wrong == "root" else bytes(32))
    assert caught.value.code == "commitment_mismatch"


def test_only_sealed_claims_are_opened_and_only_by_openings() -> None:
    with pytest.raises(CommitmentMismatch, match="was not sealed"):
        claims.check_opening(checked(opening(sealed())), checked(ownership()))
    with pytest.raises(CommitmentMismatch, match="not an opening"):
        claims.check_opening(checked(ownership()), checked(sealed()))
    other = claims.seal(context(MINER), ROOTS.content, nonce=bytes(32))
    with pytest.raises(CommitmentMismatch, match="another statement"):
        claims.check_opening(checked(opening(sealed())), checked(other))


def test_an_opening_is_signed_like_every_claim() -> None:
    with pytest.raises(InvalidSignature):
        checked(opening(sealed()), RIVAL)


def test_every_part_of_h_counts() -> None:
    parts = {"genesis": GENESIS, "netuid": NETUID, "root": ROOTS.content, "nonce": NONCE}
    h = claims.sealed_digest(hotkey(MINER), **parts)  # type: ignore[arg-type]
    others = [
        claims.sealed_digest(hotkey(MINER), **(parts | change))  # type: ignore[arg-type]
        for change in (
            {"genesis": "0x" + "0" * 64},
            {"netuid": NETUID + 1},
            {"root": digest("other")},
            {"nonce": bytes(32)},
        )
    ]
    others.append(claims.sealed_digest(hotkey(RIVAL), **parts))  # type: ignore[arg-type]
    others.append(claims.sealed_digest(Hotkey(Scheme.ED25519, hotkey(MINER).address), **parts))  # type: ignore[arg-type]
    assert len({h, *others}) == 7


def test_h_is_a_golden_value() -> None:
    # Computed apart from this package: SHA-256 over u32-big-endian length-prefixed hex parts.
    h = claims.sealed_digest(
        hotkey(COLD), genesis="0x" + "00" * 32, netuid=1, root="sha256:" + "11" * 32, nonce=bytes(32)
    )
    assert h == "sha256:1a66bdd15493fdc807f8d3f781a8a355ebd81787fd35021bf0558e8637472115"


@pytest.mark.parametrize("nonce", [b"", bytes(31), bytes(33)])
def test_the_nonce_has_32_bytes(nonce: bytes) -> None:
    with pytest.raises(MalformedInput):
        claims.seal(context(MINER), ROOTS.content, nonce=nonce)
