"""What anybody may read: the log's checkpoint, tiles and proofs, lineage, and whether the service is well."""

from __future__ import annotations

import base64

import pytest

from attest import claims
from attest.lineage import descend
from attest.log import open_checkpoint, verify_receipt
from attest.log.errors import LogForked, LogTampered
from attest.log.merkle import hash_leaf, root_of, verify_consistency
from attest.log.note import Checkpoint, NoteKey, sign_checkpoint
from attest.log.tiles import ENTRIES, Tile
from forensics.keys import Keys
from forensics.verifying.audits import audit, compare
from tests.attest import material
from tests.forensics.attesting import GENESIS, anchor, claim_of, context, digest, pair, post, signed, signer

ADA, BOB = pair("ada"), pair("bob", crypto_type=0)


@pytest.fixture
def filled(services, client):
    """A log of twelve claims."""
    services.log.append([signed(claim_of(ADA, f"m{number}"), signer(ADA)).to_json() for number in range(12)])
    services.log.checkpoint()
    return client


def tree(services, client):
    return open_checkpoint(client.get("/v1/log/checkpoint").content, log=services.log_key).checkpoint


def fetch(client):
    return lambda path: client.get(f"/v1/log/{path}").content


def test_an_empty_log_has_a_signed_checkpoint(services, client):
    assert tree(services, client).size == 0


def test_every_entry_has_a_receipt_that_verifies(services, filled):
    for index in range(12):
        proven = verify_receipt(filled.get(f"/v1/log/proof?index={index}").content, log=services.log_key)
        assert (proven.index, proven.signed.checkpoint.size) == (index, 12)


def test_any_two_sizes_are_proven_consistent(services, filled):
    now = tree(services, filled)
    leaves = [services.log.leaf(i) for i in range(12)]
    for old in range(1, 13):
        answer = filled.get(f"/v1/log/proof?old={old}&new=12").json()
        path = [base64.b64decode(node) for node in answer["path"]]
        verify_consistency(old, 12, path, root_of(map(hash_leaf, leaves[:old])), now.root)


def test_the_whole_log_can_be_audited_from_its_tiles(services, filled):
    seen = []
    audit(tree(services, filled), fetch(filled), take=lambda number, body: seen.append(body))
    assert seen == [services.log.leaf(i) for i in range(12)]


def test_an_audit_finds_one_changed_byte_in_any_entry(services, filled):
    now = tree(services, filled)
    bundle = bytearray(fetch(filled)(Tile(ENTRIES, 0, 12).path))
    for at in range(2, len(bundle), 997):
        bundle[at] ^= 1
        with pytest.raises(LogTampered):
            audit(now, lambda _: bytes(bundle))
        bundle[at] ^= 1


def test_two_signed_histories_are_evidence_and_freeze_the_log(services, filled, tmp_path):
    now = tree(services, filled)
    keys = Keys(tmp_path / "service" / "keys")
    forged = Checkpoint(now.origin, 5, b"\7" * 32)
    with pytest.raises(LogTampered, match="not of one history"):
        compare(forged, now, services.log.prove_consistency)
    note = sign_checkpoint(forged, keys.service()).encode()
    with pytest.raises(LogForked):
        services.log.observe(note)
    answer = post(services, filled, ADA, signed(claim_of(ADA, "late"), signer(ADA)).to_json())
    assert (answer.status_code, answer.json()["code"]) == (503, "log_frozen")
    assert filled.get("/readyz").json()["code"] == "log_frozen"
    assert filled.get("/v1/log/proof?index=3").status_code == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [("index=12", 404), ("index=-1", 404), ("index=x", 422), ("old=1", 400), ("", 400), ("old=5&new=99", 404)],
)
def test_proofs_of_what_is_not_there_are_refused(filled, query, status):
    assert filled.get(f"/v1/log/proof?{query}").status_code == status


@pytest.mark.parametrize("path", ["tile/0/000", "tile/0/000.p/13", "tile/9/000", "tile/x", "tile/0/../../x"])
def test_tiles_that_are_not_there_are_404(filled, path):
    assert filled.get(f"/v1/log/{path}").status_code == 404


def test_lineage_shows_claims_ancestry_and_descendants(services, client):
    one, two, three = (material.tensors("p", changed=c) for c in ((), (1,), (1, 2)))
    for parent, child in ((one, two), (two, three)):
        statement = descend(context(ADA), parent, child)
        answer = post(services, client, ADA, signed(statement, signer(ADA)).to_json())
        assert answer.json()["lineage"] == {"judgement": "unverifiable", "relation": None}
    post(services, client, BOB, signed(claims.own(context(BOB), claims.Roots(two.root)), signer(BOB)).to_json())
    anchor(services, 50)
    found = client.get(f"/v1/models/{two.root}/lineage").json()
    assert [edge["parent"] for edge in found["ancestry"]] == [one.root]
    assert [edge["child"] for edge in found["descendants"]] == [three.root]
    assert [claim["standing"] for claim in found["claims"]] == ["first"]
    assert len(client.get(f"/v1/models/{three.root}/lineage").json()["ancestry"]) == 2


def test_a_model_nobody_spoke_of_is_404(client):
    assert client.get(f"/v1/models/{digest('nobody')}/lineage").status_code == 404
    assert client.get("/v1/models/main/lineage").json()["code"] == "malformed_digest"


def test_the_service_says_who_it_is(services, client):
    found = client.get("/v1/service").json()
    assert NoteKey.parse(found["log_key"]) == services.log_key
    assert (found["hotkey"], found["genesis"]) == (services.hotkey, GENESIS)
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready", "log_size": 0}
