from __future__ import annotations

import pytest

from attest.errors import InvalidSignature
from attest.keys.ed25519 import Ed25519Signer
from attest.log.note import COSIGNATURE, NoteKey
from forensics.errors import BadInput, UsageError
from forensics.keys import Keys
from forensics.trust import Pins
from tests.attest.material import BUNDLE_KEY, COLD, SERVICE, hotkey

LOG = NoteKey("log.example", SERVICE.verifier.public_bytes)
IMPOSTOR = NoteKey("log.example", COLD.verifier.public_bytes)


def test_the_first_key_of_a_name_is_pinned_and_another_refused_for_ever(tmp_path):
    pins = Pins(tmp_path / "trust")
    assert pins.pin(LOG)
    assert not pins.pin(LOG)
    with pytest.raises(BadInput, match="another key than the one pinned"):
        pins.pin(IMPOSTOR)
    assert Pins(tmp_path / "trust").all() == (LOG,)


def test_this_homes_own_key_counts_and_cannot_be_taken_over(tmp_path):
    keys = Keys(tmp_path / "keys")
    own = keys.service_public(origin="log.example")
    pins = Pins(tmp_path / "trust", keys)
    assert pins.all() == (own,)
    with pytest.raises(BadInput):
        pins.pin(LOG)


def test_a_key_that_is_given_goes_before_the_pinned_one_of_its_name(tmp_path):
    pins = Pins(tmp_path / "trust")
    pins.pin(IMPOSTOR)
    assert pins.trusted([str(LOG)]).log("log.example") == LOG
    with pytest.raises(InvalidSignature, match="--trust"):
        pins.trusted().log("other.example")


def test_keys_are_told_apart_by_what_they_are_for(tmp_path):
    (tmp_path / "bundle.pub").write_bytes(BUNDLE_KEY.verifier.pem())
    (tmp_path / "log.vkey").write_text(f"{LOG}\n")
    witness = NoteKey("witness.example", Ed25519Signer(bytes(32)).verifier.public_bytes, COSIGNATURE)
    given = [str(tmp_path / "bundle.pub"), str(tmp_path / "log.vkey"), str(witness), str(hotkey(COLD))]
    trusted = Pins(tmp_path / "trust").trusted(given)
    assert (trusted.bundles, trusted.logs, trusted.witnesses) == ((BUNDLE_KEY.verifier,), (LOG,), (witness,))
    assert trusted.authorities == (COLD.verifier, SERVICE.verifier)


@pytest.mark.parametrize("text", ["", "nonsense", "a+00000000+AAAA", "ed25519:5Fnope", "-----BEGIN PUBLIC KEY"])
def test_what_is_no_key_is_named(tmp_path, text):
    with pytest.raises(UsageError, match="--trust"):
        Pins(tmp_path).trusted([text])


def test_a_damaged_pin_is_named(tmp_path):
    (tmp_path / "x.vkey").write_text("damaged")
    with pytest.raises(BadInput, match=r"x\.vkey"):
        Pins(tmp_path).all()
