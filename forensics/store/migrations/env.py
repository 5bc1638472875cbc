"""Alembic's entry: use the connection (and the transaction and lock) that ``store.migrate`` holds."""

from __future__ import annotations

from alembic import context

from forensics.store.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
