"""Alembic's scripts; run through ``forensics.store.migrate``, never by Alembic's own command."""
