"""Every refusal is a problem with a code, and none says anything about the inside."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from forensics.api.problems import MEDIA_TYPE


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/no/such", 404, "not_found"),
        ("GET", "/v1/service/", 404, "not_found"),
        ("DELETE", "/v1/service", 405, "method_not_allowed"),
        ("GET", "/v1/epochs/x", 422, "invalid_request"),
        ("GET", "/v1/log/proof", 400, "parameter_missing"),
        ("POST", "/v1/attestations", 401, "auth_malformed"),
        ("GET", "/v1/models/main/lineage", 400, "malformed_digest"),
    ],
)
def test_each_kind_of_refusal(client, method, path, status, code):
    answer = client.request(method, path)
    assert answer.headers["content-type"] == MEDIA_TYPE
    document = answer.json()
    assert (answer.status_code, document["status"], document["code"]) == (status, status, code)
    assert document["type"].endswith(code)
    assert document["title"] not in ("", "Error")


def test_what_nobody_foresaw_says_nothing_about_the_inside(services, client, monkeypatch, caplog):
    def broken(*arguments):
        raise RuntimeError("secret detail at /srv/forensics")

    monkeypatch.setattr(type(services.log), "latest", broken)
    answer = client.get("/v1/log/checkpoint")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "secret" not in answer.text
    assert "srv" not in answer.text
    assert "secret detail" in caplog.text  # whoever runs the service can find out


def test_a_database_that_fails_is_unavailable_and_keeps_its_address_to_itself(services, client):
    with services.engine.begin() as connection:
        connection.execute(text("ALTER TABLE entry RENAME TO gone"))
    answer = client.get("/v1/submissions?netuid=120")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert answer.headers["retry-after"] == "5"
    for inside in ("sqlite", "psycopg", "forensics.db", "127.0.0.1", "no such table"):
        assert inside not in answer.text
