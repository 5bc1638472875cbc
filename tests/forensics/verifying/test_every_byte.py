"""A claim by a bittensor wallet verifies from its receipt alone; no byte of it, or of the model, can be changed."""

from __future__ import annotations

import base64

import pytest

from attest import claims
from attest import envelope as dsse
from attest.checking import Expected
from attest.envelope import Envelope, Signature
from attest.errors import AttestError
from attest.log.proof import Receipt, parse_receipt
from fingerprint.errors import FingerprintError
from forensics.claims.measure import measure
from forensics.trust import Trusted
from forensics.verifying.logged import verify_logged
from forensics.verifying.statements import Question
from tests.forensics.attesting import ED25519, SR25519, context, flipped, make_wallet, signed, signer, small_model

ANYWHERE = Expected(None, None)


@pytest.fixture
def database_url(tmp_path):
    """One kind of database is enough: what is verified has left it."""
    return f"sqlite:///{tmp_path / 'forensics.db'}"


@pytest.fixture(params=[SR25519, ED25519], ids=["sr25519", "ed25519"])
def wallet(request, tmp_path):
    return make_wallet(tmp_path / "wallets", "miner", crypto_type=request.param)


@pytest.fixture
def model(tmp_path):
    return small_model(tmp_path / "model")


@pytest.fixture
def receipt(services, wallet, model):
    """The receipt of a claim to the small model, in a log with others before and after it."""
    key = wallet.hotkey
    bodies = [b"other %d" % i for i in range(5)]
    services.log.append(bodies)
    statement = claims.own(context(key), measure(model).roots)
    received = services.attestations.receive(signed(statement, signer(key)).to_json(), submitted_by="me")
    services.log.append([b"later"])
    services.log.checkpoint()
    return services.attestations.receipt(received.record)


@pytest.fixture
def question(services):
    return Question(ANYWHERE, Trusted(logs=(services.log_key,)))


def verify(receipt, question):
    return verify_logged(receipt, question, statement=None, where="receipt")


def test_it_verifies_from_the_receipt_alone(receipt, question, wallet):
    report = verify(receipt, question)
    assert report.facts["signed_by"] == [signer(wallet.hotkey).verifier.keyid]
    assert report.facts["log_index"] == 5
    assert any("time" in sentence for sentence in report.not_proven)


@pytest.mark.parametrize(("by", "step"), [(1, 1), (0x20, 5), (0x80, 5)])
def test_no_byte_of_the_receipt_can_be_changed(receipt, question, by, step):
    for at in range(0, len(receipt), step):
        with pytest.raises(AttestError):
            verify(flipped(receipt, at, by), question)


def test_no_byte_of_the_receipt_can_be_left_out(receipt, question):
    for at in range(0, len(receipt), 7):
        with pytest.raises(AttestError):
            verify(receipt[:at] + receipt[at + 1 :], question)


def test_no_byte_of_the_statement_inside_can_be_changed_by_whoever_encodes_it_again(receipt, question):
    """Payload, signature and key id, each changed and encoded properly: only the tree gives it away."""
    proof = parse_receipt(receipt)
    envelope = dsse.read(proof.leaf)
    signature = envelope.signatures[0]
    changed = [
        Envelope(flipped(envelope.payload, i), envelope.payload_type, (signature,))
        for i in range(len(envelope.payload))
    ]
    changed += [
        Envelope(envelope.payload, envelope.payload_type, (Signature(flipped(signature.sig, i), signature.keyid),))
        for i in range(len(signature.sig))
    ]
    changed.append(Envelope(envelope.payload, envelope.payload_type, (Signature(signature.sig, "another"),)))
    for other in changed:
        with pytest.raises(AttestError):
            verify(Receipt(proof.index, proof.path, proof.checkpoint, other.to_json()).encode(), question)


def test_no_byte_of_the_proof_can_be_changed(receipt, question):
    proof = parse_receipt(receipt)
    assert len(proof.path) == 3
    for i, node in enumerate(proof.path):
        for byte in range(32):
            path = (*proof.path[:i], flipped(node, byte), *proof.path[i + 1 :])
            with pytest.raises(AttestError):
                verify(Receipt(proof.index, path, proof.checkpoint, proof.leaf).encode(), question)
    for path in ((*proof.path, proof.path[-1]), proof.path[:-1], ()):
        with pytest.raises(AttestError):
            verify(Receipt(proof.index, path, proof.checkpoint, proof.leaf).encode(), question)
    for index in (0, 4, 6, 7, 2**40):
        with pytest.raises(AttestError):
            verify(Receipt(index, proof.path, proof.checkpoint, proof.leaf).encode(), question)


def test_the_envelope_by_itself_falls_with_any_byte_of_payload_or_signature(receipt):
    envelope = dsse.read(parse_receipt(receipt).leaf)
    signature = envelope.signatures[0]
    for i in range(len(envelope.payload)):
        with pytest.raises(AttestError):
            claims.check_ownership(
                Envelope(flipped(envelope.payload, i), envelope.payload_type, (signature,)), expected=ANYWHERE
            )
    for i in range(len(signature.sig)):
        with pytest.raises(AttestError):
            claims.check_ownership(
                Envelope(envelope.payload, envelope.payload_type, (Signature(flipped(signature.sig, i)),)),
                expected=ANYWHERE,
            )


@pytest.mark.parametrize("wallet", [SR25519], indirect=True)  # the model does not know who claims it
def test_no_byte_of_the_model_can_be_changed(receipt, question, model):
    def held_against_the_model():
        return verify(receipt, Question(ANYWHERE, question.trusted, measure(model)))

    assert any("every byte of every file" in sentence for sentence in held_against_the_model().proven)
    tried = 0
    for file in sorted(model.iterdir()):
        data = file.read_bytes()
        for at in range(len(data)):
            file.write_bytes(flipped(data, at))
            with pytest.raises((AttestError, FingerprintError)):
                held_against_the_model()
            tried += 1
        file.write_bytes(data)
    assert tried > 200
    (model / "extra.txt").write_bytes(b"x")
    with pytest.raises(AttestError):
        held_against_the_model()


def test_base64_of_the_leaf_has_one_spelling(receipt, question):
    """The same leaf in the URL-safe alphabet or without padding is not the same receipt."""
    leaf = parse_receipt(receipt).leaf
    standard = base64.b64encode(leaf)
    for other in (base64.urlsafe_b64encode(leaf + b"\xff\xfe"), standard.rstrip(b"="), standard + b"="):
        if other != standard:
            with pytest.raises(AttestError):
                verify(receipt.replace(standard, other), question)
