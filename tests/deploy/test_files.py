"""The container and compose files say what the operator guide promises, with commands and settings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from forensics.cli.main import app
from forensics.settings import ENV_PREFIX, Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
CONTAINER = (DEPLOY / "Containerfile").read_text()
OURS = ("service", "worker", "migrate")


@pytest.mark.parametrize("name", OURS)
def test_every_container_of_ours_is_locked_down(name):
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["volumes"] == ["home:/var/lib/forensics"]


def test_commands_exist():
    known = {command.name for command in app.registered_commands}
    assert {COMPOSE["services"][name]["command"][0] for name in OURS} <= known
    assert re.search(r'CMD \["(\w+)"', CONTAINER.split("ENTRYPOINT")[1])[1] in known


def test_settings_exist():
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields}
    named = set(re.findall(r"FORENSICS_[A-Z_]+", CONTAINER + (DEPLOY / "compose.yaml").read_text()))
    assert named <= known


def test_no_secret_is_written_down():
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            if "PASSWORD" in name or "KEY" in name:
                assert value.startswith("${"), name


def test_the_image_runs_as_nobody_special_and_says_when_it_is_well():
    final = CONTAINER.rpartition("FROM ")[2]
    assert re.search(r"^USER \d{4,}$", final, re.MULTILINE)
    assert "/readyz" in final


def test_workers_wait_for_a_migrated_database():
    services = COMPOSE["services"]
    assert services["migrate"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert services["service"]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"
    assert services["worker"]["depends_on"]["service"]["condition"] == "service_healthy"
