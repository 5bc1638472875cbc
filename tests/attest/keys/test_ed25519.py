"""Ed25519: RFC 8032, Wycheproof, and the keys and signatures that libraries let through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.errors import AttestError, InvalidKey, InvalidSignature
from attest.keys import ed25519
from attest.keys.ed25519 import Ed25519Signer, Ed25519Verifier, L, P
from tests.attest.material import DATA, vectors

VECTORS = vectors()["ed25519"]
RFC = {name: bytes.fromhex(value) for name, value in VECTORS["rfc8032_test1"].items() if name != "expect"}


def accepted(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519Verifier(public).verify(signature, message)
    except (InvalidKey, InvalidSignature):
        return False
    return True


def test_rfc_8032_test_1() -> None:
    signer = Ed25519Signer(RFC["seed"])
    assert signer.verifier.public_bytes == RFC["pub"]
    assert signer.sign(RFC["msg"]) == RFC["sig"]
    signer.verifier.verify(RFC["sig"], RFC["msg"])


def test_s_plus_l_is_refused() -> None:
    malleated = bytes.fromhex(VECTORS["malleated_S_plus_L"]["sig"])
    assert int.from_bytes(malleated[32:], "little") == int.from_bytes(RFC["sig"][32:], "little") + L
    with pytest.raises(InvalidSignature, match="not reduced"):
        Ed25519Verifier(RFC["pub"]).verify(malleated, RFC["msg"])


@pytest.mark.parametrize("name", ["identity_key_universal_forgery", "noncanonical_identity"])
def test_keys_under_which_one_signature_fits_all_are_refused(name: str) -> None:
    public = bytes.fromhex(VECTORS[name]["pub"])
    forgery = bytes.fromhex(VECTORS["identity_key_universal_forgery"]["sig"])
    for message in (b"any", b"other"):  # what the library alone would say
        Ed25519PublicKey.from_public_bytes(public).verify(forgery, message)
    with pytest.raises(InvalidKey):
        Ed25519Verifier(public)


def _add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    d = -121665 * pow(121666, -1, P) % P
    k = d * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + k, -1, P) % P
    return x, (a[1] * b[1] + a[0] * b[0]) * pow(1 - k, -1, P) % P


def _x(y: int) -> int:
    d = -121665 * pow(121666, -1, P) % P
    square = (y * y - 1) * pow(d * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    assert x * x % P == square
    return x


@pytest.mark.parametrize("y", sorted(ed25519.SMALL_ORDER_Y))
def test_the_list_of_small_order_points_is_right_and_refused(y: int) -> None:
    point = (_x(y), y)
    for _ in range(3):
        point = _add(point, point)
    assert point == (0, 1)
    for sign in (0, 1):
        for spelled in (y, y + P):
            if spelled < 1 << 255:
                with pytest.raises(InvalidKey):
                    Ed25519Verifier((spelled | sign << 255).to_bytes(32, "little"))


def test_there_are_five_such_y() -> None:
    assert len(ed25519.SMALL_ORDER_Y) == 5


@pytest.mark.parametrize("y", range(19))
def test_every_unreduced_y_is_refused(y: int) -> None:
    with pytest.raises(InvalidKey, match="canonical"):
        Ed25519Verifier((P + y).to_bytes(32, "little"))


def test_a_key_off_the_curve_is_refused() -> None:
    with pytest.raises(InvalidKey, match="not a point"):
        Ed25519Verifier((2).to_bytes(32, "little"))


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_wrong_key_lengths_are_refused(length: int) -> None:
    with pytest.raises(InvalidKey):
        Ed25519Verifier(b"\x05" * length)
    with pytest.raises(InvalidKey):
        Ed25519Signer(bytes(length))


@pytest.mark.parametrize("signature", [b"", RFC["sig"][:-1], RFC["sig"] + b"\0", RFC["sig"] * 2])
def test_wrong_signature_lengths_are_refused(signature: bytes) -> None:
    with pytest.raises(InvalidSignature):
        Ed25519Verifier(RFC["pub"]).verify(signature, RFC["msg"])


def test_a_small_order_r_is_refused() -> None:
    with pytest.raises(InvalidSignature, match="small order"):
        Ed25519Verifier(RFC["pub"]).verify((1).to_bytes(32, "little") + bytes(32), b"")


def _wycheproof() -> list[Any]:
    groups = json.loads((DATA / "wycheproof_ed25519_test.json").read_text())["testGroups"]
    return [(group["publicKey"]["pk"], case) for group in groups for case in group["tests"]]


def test_wycheproof() -> None:
    cases = _wycheproof()
    wrong = [
        case["tcId"]
        for public, case in cases
        if accepted(bytes.fromhex(public), bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"]))
        != (case["result"] == "valid")
    ]
    assert (len(cases), wrong) == (151, [])


@settings(deadline=None)  # a busy machine is not a failure
@given(st.binary(max_size=70), st.binary(max_size=70), st.binary(max_size=20))
def test_no_bytes_raise_anything_else_or_are_accepted(public: bytes, signature: bytes, message: bytes) -> None:
    assert not accepted(public, signature, message)
    assert not accepted(RFC["pub"], signature.ljust(64, b"\0")[:64], message)


@settings(deadline=None)  # a busy machine is not a failure
@given(st.integers(0, 64 * 8 - 1))
def test_one_flipped_bit_is_refused(bit: int) -> None:
    flipped = (int.from_bytes(RFC["sig"], "little") ^ 1 << bit).to_bytes(64, "little")
    assert not accepted(RFC["pub"], flipped, RFC["msg"])


def test_secrets_are_not_shown() -> None:
    signer = Ed25519Signer(RFC["seed"])
    assert RFC["seed"].hex() not in repr(signer)
    with pytest.raises(AttestError) as caught:
        Ed25519Signer(RFC["seed"][:-1])
    assert RFC["seed"][:-1].hex() not in str(caught.value)
