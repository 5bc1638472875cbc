"""Entries: submissions on their way to a verdict."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; see ``store.entries`` for what they mean."""
    op.create_table(
        "entry",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(80), nullable=False, unique=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("hotkey", sa.String(64), nullable=False),
        sa.Column("repo", sa.String(400), nullable=False),
        sa.Column("revision", sa.String(64), nullable=False),
        sa.Column("block", sa.BigInteger, nullable=False),
        sa.Column("extrinsic", sa.BigInteger, nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(400)),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("content_root", sa.String(80)),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("genesis", "netuid", "hotkey", "repo", "revision", "block", "extrinsic", name="entry_once"),
    )
    op.create_index("entry_hotkey", "entry", ["genesis", "netuid", "hotkey"])
    op.create_index("entry_state", "entry", ["state", "due_at"])
    op.create_index("ix_entry_content_root", "entry", ["content_root"])
