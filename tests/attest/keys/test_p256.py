"""P-256: Wycheproof, the DSSE vector, and files that are something else."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa, utils
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.envelope import decode_base64, pae
from attest.errors import InvalidKey, InvalidSignature
from attest.keys.p256 import N, P256Signer, P256Verifier, raw_to_der
from tests.attest.material import BUNDLE_KEY, DATA, vectors


def accepted(key: P256Verifier, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def test_wycheproof() -> None:
    groups = json.loads((DATA / "wycheproof_ecdsa_secp256r1_sha256_test.json").read_text())["testGroups"]
    wrong, count = [], 0
    for group in groups:
        key = P256Verifier(bytes.fromhex(group["publicKeyDer"]))
        assert P256Verifier.from_pem(group["publicKeyPem"].encode()) == key
        for case in group["tests"]:
            count += 1
            if accepted(key, bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"])) != (case["result"] == "valid"):
                wrong.append(case["tcId"])
    assert (count, wrong) == (484, [])


def test_the_dsse_vector() -> None:
    vector = vectors()["dsse_ecdsa_p256"]
    message = pae(vector["payloadType"], vector["payload"].encode())
    assert message == vector["pae"].encode()
    key = P256Verifier.from_point(int(vector["x"]), int(vector["y"]))
    key.verify(raw_to_der(decode_base64(vector["sig_raw_b64"])), message)
    signer = P256Signer.from_scalar(int(vector["d"]))
    assert signer.verifier == key
    key.verify(signer.sign(message), message)


def test_both_forms_are_valid_and_ours_is_the_smaller() -> None:
    signature = BUNDLE_KEY.sign(b"message")
    r, s = utils.decode_dss_signature(signature)
    assert s <= N // 2
    assert accepted(BUNDLE_KEY.verifier, utils.encode_dss_signature(r, N - s), b"message")
    assert BUNDLE_KEY.sign(b"message") == signature


@pytest.mark.parametrize("scalar", [0, N, -1])
def test_scalars_outside_the_group_are_refused(scalar: int) -> None:
    with pytest.raises(InvalidKey):
        P256Signer.from_scalar(scalar)


def test_a_point_off_the_curve_is_refused() -> None:
    with pytest.raises(InvalidKey):
        P256Verifier.from_point(1, 1)


def _public_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def _private_pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def test_other_curves_and_kinds_are_refused() -> None:
    for key in (ec.generate_private_key(ec.SECP256K1()), ec.generate_private_key(ec.SECP384R1())):
        with pytest.raises(InvalidKey):
            P256Verifier.from_pem(_public_pem(key))
        with pytest.raises(InvalidKey):
            P256Signer.from_pem(_private_pem(key))
    with pytest.raises(InvalidKey):
        P256Verifier.from_pem(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")


def test_a_compressed_point_is_another_spelling_and_refused() -> None:
    key = serialization.load_der_public_key(BUNDLE_KEY.verifier.public_bytes)
    assert isinstance(key, ec.EllipticCurvePublicKey)
    point = key.public_bytes(serialization.Encoding.X962, serialization.PublicFormat.CompressedPoint)
    compressed = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + point
    with pytest.raises(InvalidKey):
        P256Verifier(compressed)


def test_files_are_read_back_with_their_password_only() -> None:
    pem = BUNDLE_KEY.pem(password=b"correct horse")
    assert P256Signer.from_pem(pem, password=b"correct horse").verifier == BUNDLE_KEY.verifier
    for password in (None, b"wrong"):
        with pytest.raises(InvalidKey):
            P256Signer.from_pem(pem, password=password)
    assert P256Verifier.from_pem(BUNDLE_KEY.verifier.pem()) == BUNDLE_KEY.verifier


@settings(deadline=None)  # a busy machine is not a failure
@given(st.binary(max_size=100))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    assert not accepted(BUNDLE_KEY.verifier, data, b"message")
    with pytest.raises(InvalidKey):
        P256Verifier(data)
    with pytest.raises(InvalidKey):
        P256Signer.from_pem(data)
    if len(data) != 64:
        with pytest.raises(InvalidSignature):
            raw_to_der(data)
