from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.errors import AttestError, InvalidKey
from attest.keys.ed25519 import Ed25519Signer
from attest.log.errors import NoteInvalid
from attest.log.merkle import EMPTY_ROOT
from attest.log.note import (
    COSIGNATURE,
    Checkpoint,
    Note,
    NoteKey,
    NoteSignature,
    cosign,
    open_checkpoint,
    parse_checkpoint,
    parse_note,
    sign_checkpoint,
    sign_note,
    verify_note,
)

VECTOR = json.loads((Path(__file__).parents[2] / "data/attest/vectors.json").read_text())["c2sp_signed_note"]
LOG, WITNESS, OTHER = (Ed25519Signer(bytes([n]) * 32) for n in (1, 2, 3))
ORIGIN = "log.example/models"
TREE = Checkpoint(ORIGIN, 12345, bytes(range(32)))
KEY = NoteKey(ORIGIN, LOG.verifier.public_bytes)
SEEN_BY = NoteKey("witness.example", WITNESS.verifier.public_bytes, COSIGNATURE)
SIGNED = sign_checkpoint(TREE, LOG)
COSIGNED = cosign(SIGNED, SEEN_BY.name, WITNESS, time=1_764_500_000)


def test_the_published_note_verifies_and_every_changed_byte_of_it_does_not():
    key = NoteKey.parse(VECTOR["vkey"])
    assert str(key) == VECTOR["vkey"]
    raw = VECTOR["note"].encode()
    assert parse_note(raw).encode() == raw
    assert verify_note(parse_note(raw), [key])[0][0] == key
    for at in range(len(raw)):
        wrong = raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
        with pytest.raises(NoteInvalid):
            verify_note(parse_note(wrong), [key])


def test_a_published_cosignature_layout_is_read():
    line = (
        "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0"
        "xUe+mbIUBkBIfZ+qnA==\n"
    )
    note = parse_note(f"{TREE.body().decode()}\n{line}".encode())
    assert int.from_bytes(note.signatures[0].signature[:8], "big") == 1679315147


def test_a_checkpoint_is_opened_by_its_log_and_names_its_witnesses():
    raw = COSIGNED.encode()
    assert raw.startswith(b"log.example/models\n12345\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n\n")
    opened = open_checkpoint(raw, log=KEY, witnesses=[SEEN_BY], quorum=1)
    assert opened.checkpoint == TREE
    assert [(w.name, w.time) for w in opened.witnesses] == [("witness.example", 1_764_500_000)]
    assert open_checkpoint(raw, log=KEY).witnesses == ()


def test_witnesses_are_counted_by_key_not_by_line():
    again = cosign(COSIGNED, SEEN_BY.name, WITNESS, time=1_764_500_009)
    alias = NoteKey("alias.example", WITNESS.verifier.public_bytes, COSIGNATURE)
    twice = cosign(again, alias.name, WITNESS, time=1_764_500_010)
    with pytest.raises(NoteInvalid, match="too few witnesses"):
        open_checkpoint(twice.encode(), log=KEY, witnesses=[SEEN_BY, alias], quorum=2)


def test_a_log_is_not_its_own_witness():
    itself = NoteKey("me.example", LOG.verifier.public_bytes, COSIGNATURE)
    raw = cosign(SIGNED, itself.name, LOG, time=1).encode()
    with pytest.raises(NoteInvalid, match="too few witnesses"):
        open_checkpoint(raw, log=KEY, witnesses=[itself], quorum=1)


def test_a_witness_alone_does_not_make_a_checkpoint():
    unsigned = cosign(Note(SIGNED.text, ()), SEEN_BY.name, WITNESS, time=1).encode()
    with pytest.raises(NoteInvalid, match="log itself did not sign"):
        open_checkpoint(unsigned, log=KEY, witnesses=[SEEN_BY])


def test_a_cosignature_is_bound_to_its_time():
    line = COSIGNED.signatures[1]
    later = NoteSignature(line.name, line.key_id, (1_764_500_001).to_bytes(8, "big") + line.signature[8:])
    raw = Note(SIGNED.text, (SIGNED.signatures[0], later)).encode()
    with pytest.raises(NoteInvalid, match="does not verify"):
        open_checkpoint(raw, log=KEY, witnesses=[SEEN_BY])


def test_unknown_signatures_are_ignored_but_never_enough():
    stranger = sign_note(SIGNED.text, ORIGIN, OTHER)
    both = Note(SIGNED.text, (*stranger.signatures, *SIGNED.signatures))
    assert open_checkpoint(both.encode(), log=KEY).checkpoint == TREE
    with pytest.raises(NoteInvalid, match="no trusted key"):
        open_checkpoint(stranger.encode(), log=KEY)


def test_a_checkpoint_of_another_log_is_refused_even_under_the_same_key():
    other = sign_checkpoint(Checkpoint("log.example/other", 1, EMPTY_ROOT), LOG)
    with pytest.raises(NoteInvalid, match="another log"):
        open_checkpoint(other.encode(), log=KEY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "o\n",
        "o\n1\n",
        "o\n01\n" + "A" * 43 + "=\n",
        "o\n-1\n" + "A" * 43 + "=\n",
        "o\n1e3\n" + "A" * 43 + "=\n",
        "o\n9223372036854775808\n" + "A" * 43 + "=\n",
        "o\n1\n" + "A" * 42 + "B=\n",
        "o\n1\nAAAA\n",
        "o\n1\n" + "A" * 43 + "=",
        "o\n1\n" + "A" * 43 + "=\n\n",
        "\n1\n" + "A" * 43 + "=\n",
        "o\n١\n" + "A" * 43 + "=\n",
    ],
)
def test_text_that_is_not_quite_a_checkpoint_is_refused(text):
    with pytest.raises(NoteInvalid):
        parse_checkpoint(text)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"text only\n",
        b"text\n\n",
        b"\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"text\n\n- name AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 name AAAAAA==\n",
        b"text\n\n\xe2\x80\x94 name AAAAAAB=\n",
        b"text\n\n\xe2\x80\x94 na+me AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94  AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 name AAAAAAA=",
        b"te\rxt\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"\xff\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"x" * 70_000 + b"\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"text\n\n" + "— name AAAAAAA=\n".encode() * 65,
    ],
)
def test_bytes_that_are_not_quite_a_note_are_refused(raw):
    with pytest.raises(NoteInvalid) as caught:
        parse_note(raw)
    assert caught.value.code == "note_invalid"


@pytest.mark.parametrize("text", ["", "a+b", "a+00000000+AAAA", VECTOR["vkey"].replace("530d903a", "530d903b")])
def test_a_note_key_that_is_not_one_is_refused(text):
    with pytest.raises(NoteInvalid):
        NoteKey.parse(text)


def test_a_universal_key_is_no_note_key():
    with pytest.raises(InvalidKey):
        NoteKey("log.example", b"\x01" + bytes(31))


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_no_bytes_do_more_than_be_refused(raw):
    try:
        open_checkpoint(raw, log=KEY)
    except AttestError:
        return
    raise AssertionError("random bytes were accepted")
