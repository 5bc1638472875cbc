"""The rows of the attack table (design, Attest, section 4) on keys, envelopes and claims; each with its answer.

Rows about the log are in ``tests/attest/log``, rows about seeds and re-hashing belong to their own issues.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from attest import canonical, claims
from attest import envelope as dsse
from attest.checking import Checked, check
from attest.envelope import IN_TOTO, Envelope, Signature, wrap
from attest.errors import AttestError
from attest.graph import Edge, LineageGraph
from attest.keys import ss58
from attest.keys.ed25519 import L
from attest.keys.p256 import N
from attest.keys.rotation import KeyHistory, hand_over
from attest.lineage import Judgement, judge
from attest.predicates import KeyRotation, Ownership
from attest.priority import Binding, By, Claim, Position, Standing, rank
from attest.statement import PREDICATES, json_schema
from tests.attest.material import (
    BUNDLE_KEY,
    COLD,
    GENESIS,
    HERE,
    MINER,
    NONCE,
    RIVAL,
    ROOTS,
    context,
    hotkey,
    ownership,
    rotation,
    vectors,
)

GOOD = dsse.sign(ownership(COLD).payload(), [COLD])
SIG = GOOD.signatures[0].sig
SR_GOOD = dsse.sign(ownership(MINER).payload(), [MINER])
SR_SIG = SR_GOOD.signatures[0].sig


def refusal(received: bytes | Envelope, **place: Any) -> str:
    """The stable code with which a claim is refused; anything but an ``AttestError`` fails the test."""
    with pytest.raises(AttestError) as caught:
        check(received, Ownership, expected=replace(HERE, **place))
    assert str(caught.value)
    return caught.value.code


def with_sig(envelope: Envelope, sig: bytes) -> Envelope:
    return replace(envelope, signatures=(Signature(sig),))


def with_text(find: bytes, put: bytes) -> bytes:
    """The payload edited as bytes and signed again by its hotkey: only reading can refuse it."""
    payload = ownership(COLD).payload()
    assert payload.count(find) == 1
    return dsse.sign(payload.replace(find, put), [COLD]).to_json()


def test_replay_on_another_subnet_or_network() -> None:
    assert refusal(GOOD, netuid=1) == refusal(GOOD, genesis="0x" + "00" * 32) == "context_mismatch"


def test_same_claim_again() -> None:
    r_s = dsse.sign(b"{}", [BUNDLE_KEY])
    assert dsse.sign(b"{}", [MINER]).digest == dsse.sign(b"{}", [MINER]).digest == r_s.digest
    from cryptography.hazmat.primitives.asymmetric import utils

    r, s = utils.decode_dss_signature(r_s.signatures[0].sig)
    other = with_sig(r_s, utils.encode_dss_signature(r, N - s))
    assert dsse.verify(other, [BUNDLE_KEY.verifier])
    assert other.digest == r_s.digest


S_PLUS_L = SIG[:32] + (int.from_bytes(SIG[32:], "little") + L).to_bytes(32, "little")


@pytest.mark.parametrize(
    "received",
    [
        with_sig(GOOD, S_PLUS_L),
        with_sig(GOOD, SIG[:-1]),
        with_sig(GOOD, SIG + b"\0"),
        with_sig(GOOD, b""),
        with_sig(SR_GOOD, SR_SIG[:-1] + bytes([SR_SIG[-1] & 0x7F])),
        with_sig(SR_GOOD, SR_SIG[:-1]),
        with_sig(SR_GOOD, SR_SIG + b"\x80"),
    ],
    ids=["s + L", "63 bytes", "65 bytes", "empty", "marker bit cleared", "sr 63 bytes", "sr 65 bytes"],
)
def test_malleated_signatures(received: Envelope) -> None:
    assert refusal(received) == "invalid_signature"


@pytest.mark.parametrize("name", ["identity_key_universal_forgery", "noncanonical_identity"])
def test_small_order_or_non_canonical_key(name: str) -> None:
    forged = vectors()["ed25519"]
    members = json.loads(ownership(COLD).payload())
    members["predicate"]["context"]["hotkey"] = ss58.encode(bytes.fromhex(forged[name]["pub"]))
    sig = bytes.fromhex(forged["identity_key_universal_forgery"]["sig"])
    assert refusal(Envelope(canonical.write(members), IN_TOTO, (Signature(sig),))) == "invalid_key"


def test_algorithm_confusion() -> None:
    """The account signs as sr25519, the statement says ed25519: the other scheme is never tried."""
    confused = dsse.sign(ownership(MINER).payload().replace(b'"scheme":"sr25519"', b'"scheme":"ed25519"'), [MINER])
    assert refusal(confused) in {"invalid_signature", "invalid_key"}


def test_wrapping_is_accepted_only_when_declared() -> None:
    message = dsse.pae(IN_TOTO, SR_GOOD.payload)
    wrapped = MINER.sign(wrap(message))
    assert refusal(with_sig(SR_GOOD, wrapped)) == "invalid_signature"
    declared = replace(SR_GOOD, signatures=(Signature(wrapped, wrapping=dsse.Wrapping.SUBSTRATE_BYTES),))
    check(declared.to_json(), Ownership, expected=HERE)


@pytest.mark.parametrize(
    ("find", "put"),
    [
        (b'"netuid":120', b'"netuid":1,"netuid":120'),
        (b'"netuid":120', b'"netuid":120,"\\u006eetuid":1'),
        (b'"netuid":120', b'"netuid":9007199254740992'),
        (b'"netuid":120', b'"netuid":NaN'),
        (b'"netuid":120', b'"netuid":120.0'),
        (b'"netuid":120', b'"netuid":1.2e2'),
        (b'"competition":"demo"', b'"competition":"\\ud800"'),
        (b'"netuid":120', b'"netuid": 120'),
    ],
    ids=["duplicate", "escaped duplicate", "2^53", "NaN", "float", "exponent", "lone surrogate", "space"],
)
def test_json_tricks(find: bytes, put: bytes) -> None:
    assert refusal(with_text(find, put)) in {"malformed_input", "not_canonical"}


def test_the_bytes_received_are_the_bytes_parsed() -> None:
    """An equal value in another spelling has another digest and is not what was signed."""
    respelled = json.dumps(json.loads(GOOD.payload), indent=1).encode()
    assert refusal(replace(GOOD, payload=respelled)) in {"invalid_signature", "not_canonical"}


def test_wrong_payload_type() -> None:
    assert refusal(dsse.sign(GOOD.payload, [COLD], payload_type="text/plain")) == "unsupported_input"


def test_one_key_counted_twice() -> None:
    twice = replace(GOOD, signatures=GOOD.signatures * 2)
    with pytest.raises(AttestError) as caught:
        dsse.verify(twice, [COLD.verifier, RIVAL.verifier], threshold=2)
    assert caught.value.code == "threshold_not_met"


def _claim(name: str, signer: Any, *blocks: int) -> Claim:
    bindings = tuple(Binding(Position(block, 0), By.ATTESTATION, "") for block in blocks)
    return Claim(name, hotkey(signer), GENESIS, ROOTS.content, bindings)


def test_back_dating() -> None:
    """A claim that says it is older is not: only anchors count, and the earliest of them."""
    backdated = ownership(RIVAL, claimed_at="2020-01-01T00:00:00Z")
    check(dsse.sign(backdated.payload(), [RIVAL]), Ownership, expected=HERE)
    first, second = rank([_claim("rival", RIVAL, 8), _claim("miner", MINER, 9, 7)])
    assert (first.claim.digest, first.position, second.standing) == ("miner", Position(7, 0), Standing.LATER)


@pytest.mark.parametrize("revision", ["main", "HEAD", "v1.0", "a" * 39])
def test_a_branch_is_not_a_revision(revision: str) -> None:
    members = json.loads(ownership(COLD).payload())
    members["predicate"]["release"]["revision"] = revision
    assert refusal(dsse.sign(canonical.write(members), [COLD])) == "malformed_input"


def test_same_root_two_hotkeys() -> None:
    assert [r.standing for r in rank([_claim("a", MINER, 5), _claim("b", RIVAL, 6)])] == ["first", "later"]
    assert [r.standing for r in rank([_claim("a", MINER, 5), _claim("b", RIVAL, 5)])] == ["tie", "tie"]


def test_hotkey_rotated() -> None:
    statement = rotation(MINER, COLD)
    with pytest.raises(AttestError) as caught:
        check(dsse.sign(statement.payload(), [COLD]), KeyRotation, expected=HERE)  # without the old key
    assert caught.value.code == "threshold_not_met"
    agreed: Checked[KeyRotation] = check(dsse.sign(statement.payload(), [MINER, COLD]), KeyRotation, expected=HERE)
    history = KeyHistory([hand_over(agreed, anchor=Position(10, 0))])
    history.check_valid(hotkey(MINER), Position(9, 0))
    with pytest.raises(AttestError) as caught:
        history.check_valid(hotkey(MINER), Position(10, 0))
    assert caught.value.code == "key_rotated"
    ranked = rank([_claim("old", MINER, 5), _claim("new", COLD, 12)], owner=history.origin)
    assert [r.standing for r in ranked] == ["first", "same-owner"]


def test_a_recycled_uid_transfers_nothing() -> None:
    """No statement that anybody claims with names a uid; only a snapshot lists the uids of its own block."""

    def members(schema: Any) -> set[str]:
        if isinstance(schema, list):
            return set().union(*map(members, schema)) if schema else set()
        if not isinstance(schema, dict):
            return set()
        return set(schema.get("properties", {})).union(*map(members, schema.values()))

    naming = {kind for kind in PREDICATES if "uid" in members(json_schema(kind))}
    assert naming == {kind for kind in PREDICATES if kind.endswith("verdict/v1")}


def test_a_copied_sealed_claim() -> None:
    sealed = claims.seal(context(MINER), ROOTS.content, nonce=NONCE)
    with pytest.raises(AttestError) as caught:
        claims.open_sealed(sealed, context(RIVAL, parents=(sealed.digest,)), ROOTS, nonce=NONCE)
    assert caught.value.code == "commitment_mismatch"


def test_lineage_cycle_late_parent_unknown_parent() -> None:
    graph = LineageGraph(bound={"old": Position(1, 0), "new": Position(2, 0)})
    graph.add(Edge("old", "new", "d", Judgement.CONFIRMED))
    for parent, child, bound, code in (
        ("new", "old", None, "lineage_cycle"),
        ("late", "new", Position(3, 0), "parent_later_than_child"),
    ):
        if bound:
            graph.bind(parent, bound)
        with pytest.raises(AttestError) as caught:
            graph.add(Edge(parent, child, "d", Judgement.CONFIRMED))
        assert caught.value.code == code
    assert judge(None, parent_root="unknown") is Judgement.UNVERIFIABLE
