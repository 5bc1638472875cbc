"""Entries: submissions on their way to a verdict, and who works on them."""

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
        sa.Column("begun", sa.Integer, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("queued", sa.Integer, nullable=False),
        sa.Column("files", sa.String(80)),
        sa.Column("path", sa.String(4096)),
        sa.Column("identified", sa.String(80)),
        sa.Column("content_root", sa.String(80)),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("genesis", "netuid", "hotkey", "repo", "revision", "block", "extrinsic", name="entry_once"),
    )
    op.create_index("entry_hotkey", "entry", ["genesis", "netuid", "hotkey"])
    op.create_index("entry_state", "entry", ["state", "due_at"])
    op.create_index("ix_entry_content_root", "entry", ["content_root"])
    op.create_table(
        "scan",
        sa.Column("files", sa.String(80), primary_key=True),
        sa.Column("algorithm", sa.String(80), primary_key=True),
        sa.Column("content_root", sa.String(80), nullable=False),
        sa.Column("blob", sa.String(80), nullable=False),
        sa.Column("scanned_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "worker",
        sa.Column("name", sa.String(120), primary_key=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("beat_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "task",
        sa.Column("name", sa.String(80), primary_key=True),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("worker", sa.String(120)),
        sa.Column("ran_at", sa.DateTime(timezone=True)),
        sa.Column("problem", sa.String(400)),
    )
