"""Databases of both kinds, small fingerprints, and a home of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from fingerprint.fingerprint import Fingerprint
from forensics.api.app import create_app
from forensics.api.services import Services
from forensics.known.index import Index
from forensics.known.registry import Registry
from forensics.settings import load
from forensics.store.blobs import Blobs
from forensics.store.engine import connect
from forensics.store.migrate import ensure
from tests.forensics import attesting, models

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees the developer's home or settings."""
    for name in (
        "FORENSICS_CONFIG",
        "FORENSICS_DATABASE",
        "FORENSICS_BLOBS",
        "FORENSICS_DEBUG",
        "FORENSICS_KEY_PASSWORD",
    ):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    monkeypatch.setenv("FORENSICS_HOME", str(home))
    monkeypatch.setenv("FORENSICS_HUB", tmp_path.as_uri())
    return home


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'forensics.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def bare(database_url: str) -> Iterator[Engine]:
    """An empty database."""
    engine = connect(database_url, busy_seconds=10)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(bare: Engine) -> Engine:
    """A database at the newest schema."""
    ensure(bare)
    return bare


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs((tmp_path / "blobs").as_uri())


@pytest.fixture
def registry(engine: Engine, blobs: Blobs) -> Registry:
    return Registry(engine, blobs, clock=lambda: NOON)


@pytest.fixture
def index(engine: Engine, tmp_path: Path) -> Index:
    return Index(engine, tmp_path / "cache")


@pytest.fixture(scope="session")
def ada() -> Fingerprint:
    return models.fingerprint(models.decoder(1))


@pytest.fixture(scope="session")
def bob() -> Fingerprint:
    return models.fingerprint(models.decoder(2))


@pytest.fixture(scope="session")
def noisy_ada() -> Fingerprint:
    return models.fingerprint(models.noisy(models.decoder(1), 0.01))


@pytest.fixture
def clock() -> attesting.Clock:
    """A clock that only the test moves."""
    return attesting.Clock()


@pytest.fixture
def services(engine: Engine, tmp_path: Path, clock: attesting.Clock) -> Services:
    """A service on a fresh database, for the test's chain and subnet."""
    settings = load(home=tmp_path / "service", genesis=attesting.GENESIS, netuid=attesting.NETUID)
    return Services.open(settings, engine, clock=clock)


@pytest.fixture
def client(services: Services) -> Iterator[TestClient]:
    """The service's door, without a network."""
    with TestClient(create_app(services), raise_server_exceptions=False) as client:
        yield client
