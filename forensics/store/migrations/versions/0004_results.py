"""Paired per-item results of a subnet's competition: batches, items with their exposure, scores."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; see ``results.tables`` for what they mean."""
    op.create_table(
        "result_batch",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("competition", sa.String(512), nullable=False),
        sa.Column("digest", sa.String(80), nullable=False),
        sa.Column("reporter", sa.String(200), nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("genesis", "netuid", "competition", "digest", "reporter", name="result_batch_identity"),
    )
    op.create_table(
        "result_item",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("competition", sa.String(512), nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("environment", sa.String(200), nullable=False),
        sa.Column("item", sa.String(200), nullable=False),
        sa.Column("exposed", sa.Boolean, nullable=False),
        sa.Column("validator", sa.String(200)),
        sa.UniqueConstraint(
            "genesis", "netuid", "competition", "epoch", "environment", "item", name="result_item_identity"
        ),
    )
    op.create_table(
        "result_score",
        sa.Column(
            "item_id",
            sa.BigInteger,
            sa.ForeignKey("result_item.id", ondelete="RESTRICT"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("hotkey", sa.String(200), primary_key=True),
        sa.Column("reporter", sa.String(200), primary_key=True),
        sa.Column("batch_id", sa.Integer, sa.ForeignKey("result_batch.id", ondelete="RESTRICT"), nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("result_score_reporter", "result_score", ["reporter"])
