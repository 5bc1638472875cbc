"""A service in memory for each test."""

from __future__ import annotations

import pytest

from tests.forensics.client.world import World


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path / "cache")
