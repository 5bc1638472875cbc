"""What a commitment says; whatever else miners write is refused with a stable word, never with another error."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forensics.chain.grammar import AFFINE, Form, Malformed, Named, Rules, SealedClaim, parse
from forensics.errors import CommitMalformed, UsageError

REVISION = "0123456789abcdef0123456789abcdef01234567"
GOOD = {"model": "org/affine-model", "revision": REVISION}
ALL = Rules(forms=tuple(Form))


def dumped(**changes) -> bytes:
    return json.dumps(GOOD | changes).encode()


@pytest.mark.parametrize(
    "data",
    [
        dumped(),
        b"\n  " + dumped() + b"\r\n",
        dumped(block=5, note=["x", {"y": None}]),
        f"org/affine-model@{REVISION}".encode(),
        b'{"model":"org\\/affine-model","revision":"' + REVISION.encode() + b'"}',
    ],
)
def test_a_model_at_a_commit_is_understood(data):
    assert parse(data, ALL) == Named("org/affine-model", REVISION)


def test_a_sealed_claim_is_a_digest_and_names_no_model():
    digest = "sha256:" + "0a" * 32
    assert parse(digest.encode()) == SealedClaim(digest)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", Malformed.EMPTY),
        (b"{" + b" " * 2000 + b"}", Malformed.TOO_LONG),
        (b"\xff\xfe", Malformed.NOT_TEXT),
        (b'{"model":"\xed\xa0\x80"}', Malformed.NOT_TEXT),
        (b"{", Malformed.NOT_JSON),
        (b'{"model": NaN}', Malformed.NOT_JSON),
        (b'{"model": "a/b", "model": "c/d"}', Malformed.NOT_JSON),
        (b'{"a":' * 99 + b"1" + b"}" * 99, Malformed.NOT_JSON),
        (b'{"a":"\\ud800"}', Malformed.NOT_JSON),
        (b'{"a":' + b"9" * 900 + b"}", Malformed.MEMBER),
        (dumped() + b"{}", Malformed.NOT_JSON),
        (b'{"model": "org/m"}', Malformed.MEMBER),
        (dumped(model=None), Malformed.MEMBER),
        (dumped(revision=7), Malformed.MEMBER),
        (dumped(model="../../etc/passwd"), Malformed.REPO),
        (dumped(model="org/../x"), Malformed.REPO),
        (dumped(model="org/m\n"), Malformed.REPO),
        (dumped(model="https://huggingface.co/org/m"), Malformed.REPO),
        (dumped(model="org/mо"), Malformed.REPO),
        (dumped(model="m"), Malformed.REPO),
        (dumped(model="a--b/m"), Malformed.REPO),
        (dumped(model="o/" + "m" * 100), Malformed.REPO),
        (dumped(revision="main"), Malformed.REVISION),
        (dumped(revision=REVISION.upper()), Malformed.REVISION),
        (dumped(revision=REVISION + "\n"), Malformed.REVISION),
        (b"hello", Malformed.REPO),
        (b"[1]", Malformed.REPO),
        (b"sha256:00", Malformed.REPO),
    ],
)
def test_everything_else_is_malformed_with_its_word(data, word):
    with pytest.raises(CommitMalformed) as caught:
        parse(data, ALL)
    assert caught.value.kind == word


@given(st.binary(max_size=400))
def test_no_bytes_raise_anything_else(data):
    with contextlib.suppress(CommitMalformed):
        assert isinstance(parse(data, ALL), Named | SealedClaim)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=9), lambda x: st.lists(x, max_size=3)))
def test_no_member_value_raises_anything_else(value):
    for member in ("model", "revision"):
        with pytest.raises(CommitMalformed):
            parse(json.dumps(GOOD | {member: value}).encode())


def test_forms_are_a_choice():
    with pytest.raises(CommitMalformed, match="form_not_allowed"):
        parse(f"org/m@{REVISION}".encode())
    with pytest.raises(CommitMalformed, match="form_not_allowed"):
        parse(dumped(), Rules(forms=(Form.TEXT,)))


def test_rules_have_names():
    assert Rules.of("affine") == AFFINE
    assert Rules.of("") == Rules()
    assert Rules.of("text, one_commit") == Rules(forms=(Form.TEXT,), one_commit=True)
    assert Rules.of("hotkey_suffix").forms == Rules().forms
    with pytest.raises(UsageError, match="commit_rules"):
        Rules.of("json,everything")
