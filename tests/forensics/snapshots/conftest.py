from __future__ import annotations

import pytest

from tests.forensics.verdicts.field import Field


@pytest.fixture
def field(engine, blobs, tmp_path) -> Field:
    return Field(engine, blobs, tmp_path / "cache")
