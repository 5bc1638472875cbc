"""Every kind of artefact: recognised, checked, and reported with what it does not prove."""

from __future__ import annotations

import json

import pytest

from attest import claims
from attest.checking import Expected
from attest.errors import AttestError, BundleError, ContentMismatch, InvalidSignature, UnsupportedInput
from attest.lineage import descend
from attest.log.note import COSIGNATURE, NoteKey, cosign, parse_note
from attest.modelsigning import hash_folder, sign
from forensics.attestations.record import leaf_of
from forensics.errors import EvidenceError, UsageError
from forensics.trust import Trusted
from forensics.verifying.files import key_of, verify_bundle, verify_evidence
from forensics.verifying.kinds import Kind, kind_of
from forensics.verifying.logged import verify_checkpoint, verify_logged
from forensics.verifying.statements import Question, verify_statement
from tests.attest import material
from tests.forensics.attesting import context, digest, pair, signed, signer, small_model

ANY = Expected(None, None)
ADA = pair("ada")


@pytest.fixture
def database_url(tmp_path):
    return f"sqlite:///{tmp_path / 'forensics.db'}"


def said(report):
    return " | ".join(report.proven), " | ".join(report.not_proven)


@pytest.mark.parametrize("name", sorted(material.every_statement()))
def test_every_statement_of_ours_verifies_with_the_keys_it_needs(name):
    statement, signers = material.every_statement()[name]
    trusted = Trusted(accounts=(material.SERVICE.verifier,))
    report = verify_statement(signed(statement, *signers), Question(ANY, trusted), where=name)
    assert report.facts["digest"] == statement.digest
    assert "signed this" in said(report)[0]
    assert "signer's word" in said(report)[1]


@pytest.mark.parametrize("name", ["snapshot", "commitment", "reveal", "decision"])
def test_what_speaks_with_authority_needs_a_trusted_key(name):
    statement, signers = material.every_statement()[name]
    for trusted in (Trusted(), Trusted(accounts=(material.COLD.verifier,))):
        with pytest.raises(InvalidSignature):
            verify_statement(signed(statement, *signers), Question(ANY, trusted), where=name)


@pytest.mark.parametrize("public", [None, 0, "", [], True, {}, {"hint": None}, {"hint": []}])
def test_a_bundle_that_names_no_key_is_refused(public):
    data = json.dumps({"verificationMaterial": {"publicKey": public}}).encode()
    for whole in (data, data.replace(b"publicKey", b"other"), b'{"verificationMaterial":[]}', b"{}"):
        with pytest.raises(BundleError, match=r"bundle\.verificationMaterial.*got.*expected"):
            key_of(whole, (material.BUNDLE_KEY.verifier,), None)


def test_a_seal_is_said_to_say_nothing_of_the_model():
    seal = claims.seal(context(ADA), digest("m"), nonce=bytes(32))
    report = verify_statement(signed(seal, signer(ADA)), Question(ANY, Trusted()), where="seal")
    assert "which model it is about" in said(report)[1]


def test_a_witness_that_is_trusted_is_named_and_others_are_not(services):
    services.log.append([signed(claims.own(context(ADA), claims.Roots(digest("m"))), signer(ADA)).to_json()])
    note = services.log.checkpoint()
    key = NoteKey("witness.example", material.COLD.verifier.public_bytes, COSIGNATURE)
    services.log.cosigned(cosign(parse_note(note), key.name, material.COLD, time=1700000000).encode(), [key])
    receipt = services.log.prove(0).encode()
    for trusted, seen in ((Trusted((services.log_key,), (key,)), True), (Trusted((services.log_key,)), False)):
        report = verify_logged(receipt, Question(ANY, trusted), statement=None, where="receipt")
        assert ("witness.example" in said(report)[0]) is seen
        assert ("others saw the same log" in said(report)[1]) is not seen


def test_a_receipt_of_a_long_statement_needs_the_statement(services):
    body = signed(material.lineage(), material.MINER)
    long = signed(
        descend(material.context(material.MINER), material.tensors("p", count=300), material.tensors("q", count=300)),
        material.MINER,
    )
    services.log.append([leaf_of(long)])
    services.log.checkpoint()
    receipt, question = services.log.prove(0).encode(), Question(ANY, Trusted((services.log_key,)))
    assert verify_logged(receipt, question, statement=long.to_json(), where="r").facts["digest"] == long.digest
    for statement in (None, body.to_json(), long.to_json()[:-1] + b" }"):
        with pytest.raises(AttestError):
            verify_logged(receipt, question, statement=statement, where="r")


def test_a_leaf_that_is_no_statement_of_ours_is_refused(services):
    services.log.append([b"anything"])
    services.log.checkpoint()
    receipt, question = services.log.prove(0).encode(), Question(ANY, Trusted((services.log_key,)))
    with pytest.raises(AttestError):
        verify_logged(receipt, question, statement=None, where="receipt")


def test_a_checkpoint_says_how_to_check_further(services):
    report = verify_checkpoint(services.log.checkpoint(), Trusted((services.log_key,)))
    assert "consistency" in said(report)[1]
    with pytest.raises(InvalidSignature, match="--trust"):
        verify_checkpoint(services.log.checkpoint(), Trusted())


@pytest.fixture
def bundled(tmp_path):
    folder = small_model(tmp_path / "model")
    (folder / "data").write_bytes(bytes(range(256)) * 64)
    made = sign(hash_folder(folder, shard_size=4096), material.BUNDLE_KEY, name="model")
    return folder, made


def test_a_sample_of_a_bundle_says_what_it_would_have_seen(bundled):
    folder, made = bundled
    key = material.BUNDLE_KEY.verifier
    report = verify_bundle(made, key, folder=folder, spot_check=3, draw=lambda n: 0)
    assert report.facts["spot_checked"] == 3
    assert "1 - (1 - f)^3" in said(report)[0]
    assert "others are as signed" in said(report)[1]
    assert "byte for byte" in said(verify_bundle(made, key, folder=folder))[0]
    data = bytearray((folder / "data").read_bytes())
    data[5000] ^= 1
    (folder / "data").write_bytes(bytes(data))
    with pytest.raises(ContentMismatch):
        verify_bundle(made, key, folder=folder, spot_check=100, draw=lambda n: n - 1)
    (folder / "data").unlink()
    with pytest.raises(ContentMismatch):
        verify_bundle(made, key, folder=folder, spot_check=100, draw=lambda n: 0)
    (folder / "data").symlink_to("/etc/hostname")
    with pytest.raises(AttestError):
        verify_bundle(made, key, folder=folder, spot_check=100, draw=lambda n: 0)


def test_the_key_of_a_bundle_is_the_one_it_names(bundled):
    _, made = bundled
    key, pem = material.BUNDLE_KEY.verifier, material.BUNDLE_KEY.verifier.pem()
    assert key_of(made, (key,), None) == (key, True)
    assert key_of(made, (), pem) == (key, False)
    other = type(material.BUNDLE_KEY).from_scalar(7).verifier
    with pytest.raises(AttestError, match="another key"):
        key_of(made, (other,), None)
    with pytest.raises(UsageError):
        key_of(made, (), None)


def test_kinds_are_told_apart_and_what_is_none_is_refused(services, bundled):
    envelope = signed(material.ownership(), material.MINER).to_json()
    assert kind_of(envelope, where="f") is Kind.STATEMENT
    assert kind_of(bundled[1], where="f") is Kind.BUNDLE
    assert kind_of(services.log.checkpoint(), where="f") is Kind.CHECKPOINT
    services.log.append([envelope])
    services.log.checkpoint()
    assert kind_of(services.log.prove(0).encode(), where="f") is Kind.RECEIPT
    assert kind_of(b"PK\x03\x04", where="f") is Kind.EVIDENCE
    for data in (b"", b"\0\1", b"{}", b"[]", b"hello\n"):
        with pytest.raises(UnsupportedInput):
            kind_of(data, where="f")


def test_a_damaged_evidence_bundle_is_refused():
    with pytest.raises(EvidenceError):
        verify_evidence(b"PK\x03\x04 and no more", where="evidence")
