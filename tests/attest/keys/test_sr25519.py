"""sr25519: the shared vector, and what schnorrkel's bindings or wallets let through."""

from __future__ import annotations

import pytest
import sr25519
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.envelope import wrap
from attest.errors import InvalidKey, InvalidSignature
from attest.keys.sr25519 import IDENTITY, Sr25519Signer, Sr25519Verifier
from tests.attest.material import vectors

VECTOR = vectors()["sr25519"]
PUBLIC = bytes.fromhex(VECTOR["pub"])
MESSAGE = VECTOR["msg_utf8"].encode()
SIGNATURE = bytes.fromhex(VECTOR["sig"])
L = 2**252 + 27742317777372353535851937790883648493


def accepted(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Sr25519Verifier(public).verify(signature, message)
    except (InvalidKey, InvalidSignature):
        return False
    return True


def test_the_vector_is_accepted() -> None:
    Sr25519Verifier(PUBLIC).verify(SIGNATURE, MESSAGE)


def test_a_cleared_marker_bit_is_refused() -> None:
    with pytest.raises(InvalidSignature, match="marker"):
        Sr25519Verifier(PUBLIC).verify(SIGNATURE[:-1] + bytes([SIGNATURE[-1] & 0x7F]), MESSAGE)


def test_s_plus_l_is_refused() -> None:
    s = int.from_bytes(SIGNATURE[32:], "little") & ~(1 << 255)
    assert not accepted(PUBLIC, SIGNATURE[:32] + (s + L | 1 << 255).to_bytes(32, "little"), MESSAGE)


@pytest.mark.parametrize("signature", [b"", SIGNATURE[:-1], SIGNATURE + b"\0", SIGNATURE * 2])
def test_wrong_signature_lengths_are_refused(signature: bytes) -> None:
    with pytest.raises(InvalidSignature):
        Sr25519Verifier(PUBLIC).verify(signature, MESSAGE)


@pytest.mark.parametrize("public", [b"", PUBLIC[:-1], PUBLIC + b"\0", b"\xff" * 32])
def test_what_is_no_key_is_refused(public: bytes) -> None:
    with pytest.raises(InvalidKey):
        Sr25519Verifier(public)


def test_the_identity_as_key_is_refused() -> None:
    forgery = bytes(63) + b"\x80"
    for message in (b"any", b"other"):  # what the library alone would say
        assert sr25519.verify(forgery, message, IDENTITY)
    with pytest.raises(InvalidKey, match="identity"):
        Sr25519Verifier(IDENTITY)


def test_wrapped_and_plain_are_different_messages() -> None:
    signer = Sr25519Signer(bytes(32))
    assert not accepted(signer.verifier.public_bytes, signer.sign(wrap(MESSAGE)), MESSAGE)
    assert not accepted(signer.verifier.public_bytes, signer.sign(MESSAGE), wrap(MESSAGE))


def test_signatures_are_randomised_and_all_good() -> None:
    signer = Sr25519Signer(bytes(32))
    first, second = signer.sign(MESSAGE), signer.sign(MESSAGE)
    assert first != second
    for signature in (first, second):
        signer.verifier.verify(signature, MESSAGE)


@settings(deadline=None)  # a busy machine is not a failure
@given(st.integers(0, 64 * 8 - 1))
def test_one_flipped_bit_is_refused(bit: int) -> None:
    flipped = (int.from_bytes(SIGNATURE, "little") ^ 1 << bit).to_bytes(64, "little")
    assert not accepted(PUBLIC, flipped, MESSAGE)


@settings(deadline=None)  # a busy machine is not a failure
@given(st.binary(max_size=70), st.binary(max_size=70), st.binary(max_size=20))
def test_no_bytes_raise_anything_else_or_are_accepted(public: bytes, signature: bytes, message: bytes) -> None:
    assert not accepted(public, signature, message)
    assert not accepted(PUBLIC, signature.ljust(64, b"\x80")[:64], message)


@pytest.mark.parametrize("length", [0, 31, 33])
def test_only_32_byte_seeds(length: int) -> None:
    with pytest.raises(InvalidKey):
        Sr25519Signer(bytes(length))
