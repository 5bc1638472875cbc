"""Every table of the store, for Alembic and the test that compares both: import this, not one file of tables."""

from __future__ import annotations

from . import attestation, epochs, tables

METADATA = tables.Base.metadata
TABLES = (tables, attestation, epochs)
