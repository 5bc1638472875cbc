"""Fixtures that several packages share."""

from __future__ import annotations

from tests.postgres import postgres_cluster, postgres_url

__all__ = ["postgres_cluster", "postgres_url"]
