"""Findings, verdicts and signed snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; see ``store.verdicts`` for what they mean."""
    op.create_table(
        "finding",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entry.id", ondelete="RESTRICT")),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("detector", sa.String(80), nullable=False),
        sa.Column("code", sa.String(80), nullable=False),
        sa.Column("subject", sa.String(400), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("entry_id", "digest", name="finding_once"),
    )
    op.create_index("finding_code", "finding", ["code"])
    op.create_index("ix_finding_subject", "finding", ["subject"])
    op.create_table(
        "verdict",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entry.id", ondelete="RESTRICT"), nullable=False),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("hotkey", sa.String(64), nullable=False),
        sa.Column("revision", sa.String(64), nullable=False),
        sa.Column("inputs", sa.String(80), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("multiplier", sa.String(32), nullable=False),
        sa.Column("policy", sa.String(80), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("judged_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("entry_id", "inputs", name="verdict_once"),
    )
    op.create_index("ix_verdict_entry_id", "verdict", ["entry_id"])
    op.create_index("verdict_subject", "verdict", ["genesis", "netuid", "hotkey", "revision"])
    op.create_table(
        "snapshot",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("block", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("content", sa.String(80), nullable=False),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("leaf", sa.BigInteger),
        sa.Column("issued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("genesis", "netuid", "sequence", name="snapshot_sequence"),
    )
    op.create_index("ix_snapshot_leaf", "snapshot", ["leaf"])
