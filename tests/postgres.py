"""A throwaway PostgreSQL cluster, started once a session, and a fresh database for each test.

Where the server's binaries are absent the tests that need it are skipped with a loud reason; in CI they fail, for a
database that is never tested is not supported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks.postgres import ABSENT, binaries, cluster, database


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[str]:
    """URL of an empty cluster's server, without a database name."""
    if binaries() is None:
        if os.environ.get("CI"):
            pytest.fail(ABSENT)
        pytest.skip(ABSENT)
    with cluster() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_cluster: str) -> Iterator[str]:
    """URL of a fresh, empty database."""
    with database(postgres_cluster) as url:
        yield url
