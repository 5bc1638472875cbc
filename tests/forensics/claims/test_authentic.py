from __future__ import annotations

import pytest

from attest import canonical
from forensics.claims.authentic import seal, unseal
from forensics.keys import Keys

HINTS = canonical.write({"files": {"a": "0" * 64}})
KEY = b"k" * 32


def test_hints_of_ones_own_are_given_back(tmp_path):
    sealed = seal(HINTS, key=KEY, model=tmp_path / "model")
    assert unseal(sealed, key=KEY, model=tmp_path / "model") == HINTS


def test_hints_of_another_home_another_model_or_changed_are_none(tmp_path):
    model = tmp_path / "model"
    sealed = seal(HINTS, key=KEY, model=model)
    assert unseal(sealed, key=b"l" * 32, model=model) is None
    assert unseal(sealed, key=KEY, model=tmp_path / "other") is None
    assert unseal(sealed.replace(b"0" * 64, b"1" * 64), key=KEY, model=model) is None


@pytest.mark.parametrize("mac", ["", "AAAA", 7, None, "\u00e9" * 64])
def test_a_code_that_is_none_is_none(tmp_path, mac):
    whole = canonical.read_object(seal(HINTS, key=KEY, model=tmp_path)) | {"mac": mac}
    assert unseal(canonical.write(whole), key=KEY, model=tmp_path) is None


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b"\xff", HINTS, b'{"schema":"forensics/authentic-hints/v1","mac":""}']
)
def test_what_is_no_sealed_hints_is_none(tmp_path, data):
    assert unseal(data, key=KEY, model=tmp_path) is None


def test_the_secret_is_made_once_and_is_its_owners_alone(tmp_path):
    keys = Keys(tmp_path / "keys")
    assert keys.known_hints() is None
    secret = keys.hints()
    assert (len(secret), keys.hints(), keys.known_hints()) == (32, secret, secret)
    assert (tmp_path / "keys" / "hints.key").stat().st_mode & 0o777 == 0o600
