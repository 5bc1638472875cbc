"""A snapshot verified with ``forensics verify``: what it proves, until when, and what is refused."""

from __future__ import annotations

import json

import pytest

from attest import envelope as dsse
from attest.checking import Expected
from attest.errors import AttestError
from attest.keys.ed25519 import Ed25519Signer
from forensics.trust import Trusted
from forensics.verifying.logged import verify_logged
from forensics.verifying.statements import Question, verify_statement
from tests.forensics.attesting import GENESIS, NETUID
from tests.forensics.verdicts.field import SIGNER, Field, hotkey

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def field(engine, blobs, tmp_path) -> Field:
    return Field(engine, blobs, tmp_path / "cache")


@pytest.fixture
def snapshot(field):
    field.verdicts.judge(field.commit("a", block=7, state="parked", reason="gated: no access"))
    return field.publisher().publish(NETUID, 8512345, field.seats("a", "b", "c"))


def question(field, *, netuid: int = NETUID) -> Question:
    trusted = Trusted(logs=(field.log.key,))
    return Question(Expected(GENESIS, netuid), trusted, now=field.clock)


def verified(field, data: bytes, **where):
    return verify_statement(dsse.read(data), question(field, **where), where="snapshot")


def test_it_says_what_it_holds_and_until_when(field, snapshot):
    report = verified(field, snapshot.envelope)
    document = report.document()
    assert document["kind"] == "snapshot"
    assert (document["sequence"], document["block"], document["netuid"]) == (1, 8512345, NETUID)
    assert document["statuses"] == {"unknown": 3}
    assert document["expired"] is False
    assert json.dumps(document)
    assert any("3 verdicts (3 unknown), 0 with a multiplier below 1" in sentence for sentence in report.proven)
    assert any("newest" in sentence for sentence in report.not_proven)


def test_once_expired_it_says_so(field, snapshot):
    field.clock.forward(7200)
    report = verified(field, snapshot.envelope)
    assert report.facts["expired"] is True
    assert any("it expired at" in sentence for sentence in report.not_proven)


def test_another_key_subnet_or_byte_is_refused(field, snapshot):
    with pytest.raises(AttestError, match="another netuid"):
        verified(field, snapshot.envelope, netuid=NETUID + 1)
    envelope = dsse.read(snapshot.envelope)
    forged = dsse.sign(envelope.payload, [Ed25519Signer(b"\x99" * 32)]).to_json()
    with pytest.raises(AttestError):
        verified(field, forged)
    changed = envelope.payload.replace(b'"multiplier":"1.0"', b'"multiplier":"0.9"', 1)
    assert changed != envelope.payload
    with pytest.raises(AttestError):
        verified(field, dsse.Envelope(changed, envelope.payload_type, envelope.signatures).to_json())


def test_its_receipt_proves_that_it_is_in_the_log(field, snapshot):
    receipt = field.shelf.receipt(snapshot)
    report = verify_logged(receipt, question(field), statement=snapshot.envelope, where="receipt")
    assert report.facts["log_index"] == snapshot.leaf
    assert report.facts["sequence"] == 1


def test_a_large_one_is_logged_by_its_digest_and_needs_its_file(field):
    large = field.publisher().publish(NETUID, 1, field.seats(*(f"m{n}" for n in range(256))))
    receipt = field.shelf.receipt(large)
    with pytest.raises(AttestError, match="--statement"):
        verify_logged(receipt, question(field), statement=None, where="receipt")
    report = verify_logged(receipt, question(field), statement=large.envelope, where="receipt")
    assert report.facts["statuses"] == {"unknown": 256}


def test_the_command_verifies_the_file_that_is_served(field, snapshot, tmp_path, capsys):
    from forensics.cli.main import main

    file = tmp_path / "verdicts.json"
    file.write_bytes(snapshot.envelope)
    account = f"ed25519:{_account()}"
    assert main(["verify", str(file), "--trust", account, "--netuid", str(NETUID), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["kind"], said["verified"], said["sequence"]) == ("snapshot", True, 1)
    assert [v["hotkey"] for v in said["statement"]["predicate"]["verdicts"]] == [hotkey(name) for name in "abc"]
    assert main(["verify", str(file), "--trust", account, "--netuid", "9"]) == 3
    assert main(["verify", str(file)]) == 3


def _account() -> str:
    from attest.keys.service import account

    return account(SIGNER).address
