"""What Prometheus reads, and that its labels do not grow with whoever asks."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.load import world
from forensics.api import metrics
from forensics.api.server import application
from forensics.keys import Keys
from tests.forensics.attesting import NETUID, PLACE

DASHBOARD = Path(__file__).parents[3] / "deploy" / "grafana" / "forensics.json"


@pytest.fixture
def door(services):
    with TestClient(application(services), raise_server_exceptions=False) as client:
        yield client


def scraped(door):
    answer = door.get("/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def requests(found, route):
    return {
        dict(labels)["status"]: value
        for (name, labels), value in found.items()
        if name == "forensics_http_requests_total" and dict(labels)["route"] == route and value
    }


def test_requests_are_counted_by_route_and_status(services, door, tmp_path, clock):
    signer = Keys(tmp_path / "service" / "keys").service()
    world.publish(services.engine, signer, uids=2, place=PLACE, clock=clock)
    path = f"/v1/netuids/{NETUID}/verdicts"
    tag = door.get(path).headers["etag"]
    door.get(path, headers={"If-None-Match": tag})
    door.get(f"{path}/{world.hotkey_of(1)}")
    door.get(f"{path}/{world.hotkey_of(9)}")
    door.get("/v1/service")
    found = scraped(door)
    assert requests(found, metrics.SNAPSHOT) == {"200": 1, "304": 1}
    assert requests(found, metrics.VERDICT) == {"200": 1, "404": 1}
    assert requests(found, "/v1/service") == {"200": 1}
    assert found[("forensics_snapshot_sequence", (("netuid", str(NETUID)),))] == 1
    assert found[("forensics_store_up", ())] == 1


def test_no_label_grows_with_what_is_asked_for(door):
    def ask(numbers):
        for number in numbers:
            door.get(f"/no/such/{number}")
            door.get(f"/v1/attestations/{number}")
            door.request(f"M{number}", "/v1/service")
        return scraped(door)

    ask(range(3))
    before, after = ask(range(3)), ask(range(3, 50))
    assert len(after) == len(before)
    values = {value for _, labels in after for _, value in labels}
    assert not [v for v in values if re.search(r"5[A-Za-z0-9]{46}|sha256:|/no/such", v)]


def test_without_the_database_it_says_so_and_still_answers(services, door):
    from sqlalchemy import text

    with services.engine.begin() as connection:
        connection.execute(text("ALTER TABLE snapshot RENAME TO gone"))
    assert scraped(door)[("forensics_store_up", ())] == 0


def test_the_dashboard_asks_for_metrics_that_exist(door):
    door.get("/v1/service")
    known = {name for name, _ in scraped(door)} | set(
        re.findall(r"forensics_[a-z_]+", Path(metrics.__file__).read_text())
    )
    asked = set(re.findall(r"forensics_[a-z_]+", json.dumps(json.loads(DASHBOARD.read_text()))))
    base = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in asked}
    assert len(base) >= 6
    assert base <= known | {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in known}
