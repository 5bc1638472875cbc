"""Epochs, what is said of them, and who fetched their hidden items."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; see ``store.epochs`` for what they mean."""
    op.create_table(
        "epoch",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("competition", sa.String(512), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False, index=True),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.Column("generator", sa.String(80), nullable=False),
        sa.Column("mix_round", sa.BigInteger, nullable=False),
        sa.Column("open_round", sa.BigInteger, nullable=False),
        sa.Column("commitment", sa.String(64), nullable=False, unique=True),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("timelock", sa.LargeBinary, nullable=False),
        sa.Column("batch_root", sa.String(64), nullable=False),
        sa.Column("batch_index", sa.Integer, nullable=False),
        sa.Column("batch_size", sa.Integer, nullable=False),
        sa.Column("batch_path", sa.LargeBinary, nullable=False),
        sa.Column("stamp", sa.LargeBinary),
        sa.Column("mix_signature", sa.LargeBinary),
        sa.Column("open_signature", sa.LargeBinary),
        sa.Column("roster", sa.Text),
        sa.Column("void_reason", sa.String(128)),
        sa.Column("committed_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("genesis", "netuid", "competition", "number"),
    )
    op.create_table(
        "epoch_statement",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("epoch_id", sa.Integer, sa.ForeignKey("epoch.id", ondelete="RESTRICT"), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("leaf", sa.BigInteger, index=True),
        sa.Column("receipt", sa.LargeBinary),
        sa.UniqueConstraint("epoch_id", "kind"),
    )
    op.create_table(
        "seed_fetch",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("epoch_id", sa.Integer, sa.ForeignKey("epoch.id", ondelete="RESTRICT"), nullable=False, index=True),
        sa.Column("hotkey", sa.String(80), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("items", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
    )
