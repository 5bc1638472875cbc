"""Evidence by its digest, and nothing but evidence."""

from __future__ import annotations

import pytest

from fingerprint.file import dumps
from forensics import bundle
from forensics.evidence import SCHEMA
from forensics.store.blobs import digest_of
from tests.forensics.attesting import claim_of, pair, signed, signer

ADA = pair("ada")


def test_a_bundle_is_given_as_it_is(services, client):
    data = bundle.pack(SCHEMA, {"result.json": b"{}"})
    answer = client.get(f"/v1/evidence/{services.blobs.put(data)}")
    assert (answer.status_code, answer.content) == (200, data)
    assert answer.headers["content-type"] == "application/zip"
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-disposition"].startswith("attachment")


def test_a_document_is_given_as_it_is(services, client):
    digest = services.blobs.put(b'{"a":1}')
    answer = client.get(f"/v1/evidence/{digest}")
    assert (answer.json(), answer.headers["content-type"]) == ({"a": 1}, "application/json")
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("kind", ["fingerprint", "statement", "other bundle", "text"])
def test_other_blobs_are_not_given_out(services, client, ada, kind):
    data = {
        "fingerprint": dumps(ada),
        "statement": signed(claim_of(ADA), signer(ADA)).to_json(),
        "other bundle": bundle.pack("another/v1", {"a.json": b"{}"}),
        "text": b"<script>alert(1)</script>",
    }[kind]
    answer = client.get(f"/v1/evidence/{services.blobs.put(data)}")
    assert (answer.status_code, answer.json()["code"]) == (404, "evidence_unknown")


@pytest.mark.parametrize("digest", [digest_of(b"nothing"), "sha256:..", "../../etc/passwd", "sha256:" + "F" * 64])
def test_what_is_not_there_is_not_found(client, digest):
    answer = client.get(f"/v1/evidence/{digest}")
    assert answer.status_code in (404, 422)
    assert "code" in answer.json()


def test_a_damaged_blob_is_not_passed_off_as_evidence(services, client, tmp_path):
    digest = services.blobs.put(b'{"a":1}')
    path = next((tmp_path / "service" / "blobs").glob(f"*/{digest.removeprefix('sha256:')}"))
    path.write_bytes(b'{"a":2}')
    answer = client.get(f"/v1/evidence/{digest}")
    assert (answer.status_code, answer.json()["code"]) == (500, "store_corrupt")
