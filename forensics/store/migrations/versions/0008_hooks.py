"""Webhooks and their messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; see ``store.hooks`` for what they mean."""
    op.create_table(
        "hook",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(40), nullable=False, unique=True),
        sa.Column("hotkey", sa.String(64), nullable=False),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("url", sa.String(2000), nullable=False),
        sa.Column("only", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("ended_why", sa.String(400)),
    )
    op.create_index("hook_owner", "hook", ["hotkey"])
    op.create_index("hook_subnet", "hook", ["genesis", "netuid"])
    op.create_table(
        "hook_message",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(40), nullable=False, unique=True),
        sa.Column("hook_id", sa.Integer, sa.ForeignKey("hook.id", ondelete="RESTRICT"), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True)),
        sa.Column("received_at", sa.DateTime(timezone=True)),
        sa.Column("outcome", sa.String(200)),
        sa.UniqueConstraint("hook_id", "sequence", name="hook_message_once"),
    )
    op.create_index("hook_message_due", "hook_message", ["due_at"])
    op.create_table(
        "hook_announced",
        sa.Column("genesis", sa.String(66), primary_key=True),
        sa.Column("netuid", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
    )
