"""Known models, the claims to them, and the search index."""

from __future__ import annotations

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; see ``store.tables`` for what they mean."""
    identity = op.create_table("identity", sa.Column("value", sa.String(40), primary_key=True))
    op.bulk_insert(identity, [{"value": secrets.token_hex(16)}])
    op.create_table(
        "model",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("content_root", sa.String(80), nullable=False, unique=True),
        sa.Column("nameless_root", sa.String(80), nullable=False, index=True),
        sa.Column("value_root", sa.String(80), nullable=False, index=True),
        sa.Column("algorithm", sa.Text, nullable=False),
        sa.Column("family", sa.String(80), nullable=False),
        sa.Column("parameters", sa.BigInteger, nullable=False),
        sa.Column("blob", sa.String(80), nullable=False),
        sa.Column("blob_size", sa.BigInteger, nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "submission",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("model_id", sa.Integer, sa.ForeignKey("model.id", ondelete="RESTRICT"), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("label", sa.String(400), nullable=False),
        sa.Column("hotkey", sa.String(80)),
        sa.Column("block", sa.BigInteger),
        sa.Column("extrinsic", sa.Integer),
        sa.Column("repo", sa.String(400)),
        sa.Column("revision", sa.String(64)),
        sa.Column("path", sa.String(4096)),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True)),
        sa.Column("withdrawn_reason", sa.String(400)),
    )
    op.create_index("submission_hotkey", "submission", ["hotkey"])
    op.create_index("submission_model_active", "submission", ["model_id", "withdrawn_at"])
    op.create_table(
        "posting",
        sa.Column("key", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("model_id", sa.Integer, sa.ForeignKey("model.id", ondelete="CASCADE"), primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "vector",
        sa.Column("space", sa.String(80), primary_key=True),
        sa.Column("model_id", sa.Integer, sa.ForeignKey("model.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
