"""Every table of the store, for Alembic and the test that compares both: import this, not one file of tables."""

from __future__ import annotations

from ..results import tables as results
from . import attestation, chain, entries, epochs, hooks, tables, verdicts

METADATA = tables.Base.metadata
TABLES = (tables, attestation, epochs, results, chain, entries, verdicts, hooks)
