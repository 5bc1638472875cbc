from __future__ import annotations

from pathlib import Path

import pytest

from forensics.epochs.rotation import Rotation

from .simulated import SimulatedChain, service


@pytest.fixture
def chain(tmp_path: Path) -> SimulatedChain:
    folder = tmp_path / "world"
    folder.mkdir()
    return SimulatedChain(folder)


@pytest.fixture
def rotation(database_url: str, chain: SimulatedChain) -> Rotation:
    made = service(database_url, chain)
    yield made
    made.shelf.engine.dispose()
