"""Every published vector has its stated answer here; one that nobody answers for fails the test.

The same vectors are used in depth beside the code they are about; this is the list that proves none was forgotten.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from attest.envelope import decode_base64, pae
from attest.errors import AttestError
from attest.keys import ss58
from attest.keys.ed25519 import Ed25519Signer, Ed25519Verifier
from attest.keys.p256 import P256Signer, P256Verifier, raw_to_der
from attest.keys.sr25519 import Sr25519Verifier
from attest.log.merkle import hash_leaf, root_of, verify_consistency, verify_inclusion
from attest.log.note import NoteKey, parse_note, verify_note
from tests.attest.material import DATA, vectors

ALL = vectors()
ELSEWHERE = {"ecvrf_rfc9381_ex16_TAI", "drand_quicknet", "hkdf_rfc5869_a1", "proposed_seed_scheme"}
"""Vectors of hidden seeds, which are another part of the package."""
TREE = ALL["rfc6962_ct_tree"]
LEAVES = [hash_leaf(bytes.fromhex(leaf)) for leaf in TREE["leaves_hex"]]
ROOTS = [bytes.fromhex(root) for root in TREE["roots_hex"]]
FORGERY = bytes.fromhex(ALL["ed25519"]["identity_key_universal_forgery"]["sig"])
HONEST = {name: bytes.fromhex(v) for name, v in ALL["ed25519"]["rfc8032_test1"].items() if name != "expect"}


def raw(values: list[str]) -> list[bytes]:
    return [bytes.fromhex(value) for value in values]


def tree() -> None:
    assert [root_of(LEAVES[:size]) for size in range(len(ROOTS))] == ROOTS
    for case in TREE["inclusion"]:
        verify_inclusion(LEAVES[case["index"]], case["index"], case["size"], raw(case["path"]), ROOTS[case["size"]])
    for case in TREE["consistency"]:
        old, new, path = case["old"], case["new"], raw(case["proof"])
        verify_consistency(old, new, path, ROOTS[old], ROOTS[new])


def ed25519(name: str) -> Callable[[], None]:
    vector = ALL["ed25519"][name]

    def check() -> None:
        public = bytes.fromhex(vector.get("pub", HONEST["pub"].hex()))
        signature = bytes.fromhex(vector["sig"]) if "sig" in vector else FORGERY
        Ed25519Verifier(public).verify(signature, HONEST["msg"])

    return check


def made_again() -> None:
    assert Ed25519Signer(HONEST["seed"]).sign(HONEST["msg"]) == HONEST["sig"]


def dsse() -> None:
    vector = ALL["dsse_ecdsa_p256"]
    message = pae(vector["payloadType"], vector["payload"].encode())
    assert message.decode() == vector["pae"]
    key = P256Verifier.from_point(int(vector["x"]), int(vector["y"]))
    assert P256Signer.from_scalar(int(vector["d"])).verifier == key
    key.verify(raw_to_der(decode_base64(vector["sig_raw_b64"])), message)


def note() -> None:
    vector = ALL["c2sp_signed_note"]
    assert verify_note(parse_note(vector["note"].encode()), [NoteKey.parse(vector["vkey"])])


def sr25519() -> None:
    vector = ALL["sr25519"]
    Sr25519Verifier(bytes.fromhex(vector["pub"])).verify(bytes.fromhex(vector["sig"]), vector["msg_utf8"].encode())
    assert ss58.encode(bytes.fromhex(vector["alice_pub"])) == vector["alice_ss58_42"]


ACCEPTED: dict[str, Callable[[], None]] = {
    "rfc6962_ct_tree": tree,
    "ed25519/rfc8032_test1": ed25519("rfc8032_test1"),
    "ed25519/rfc8032_test1 made again": made_again,
    "dsse_ecdsa_p256": dsse,
    "c2sp_signed_note": note,
    "sr25519": sr25519,
}
REFUSED: dict[str, Callable[[], None]] = {
    f"ed25519/{name}": ed25519(name)
    for name in ("malleated_S_plus_L", "identity_key_universal_forgery", "noncanonical_identity")
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    ACCEPTED[name]()


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(AttestError):
        REFUSED[name]()


def test_no_vector_is_forgotten() -> None:
    answered = {name.split("/")[0] for name in (*ACCEPTED, *REFUSED)}
    assert set(ALL) == answered | ELSEWHERE
    for name, vector in ALL["ed25519"].items():
        answer = ACCEPTED if vector["expect"] == "accept" else REFUSED
        assert f"ed25519/{name}" in answer


def test_the_files_of_published_cases_are_whole() -> None:
    """How many cases there are; that each has its answer is tested beside the code."""

    def load(name: str) -> Any:
        return json.loads((DATA / name).read_text())

    proofs = load("rfc6962_proofs.json")["vectors"]
    assert (len(proofs["inclusion"]), len(proofs["consistency"])) == (98, 98)
    assert load("wycheproof_ed25519_test.json")["numberOfTests"] == 151
    assert load("wycheproof_ecdsa_secp256r1_sha256_test.json")["numberOfTests"] == 484
    assert len(list((DATA / "oms").glob("*.bundle.json"))) == 8
