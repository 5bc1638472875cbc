"""Attestations, lineage, anchors, and the nonces and answers of signed requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; see ``store.attestation`` for what they mean."""
    op.create_table(
        "attestation",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(80), nullable=False, unique=True),
        sa.Column("kind", sa.String(80), nullable=False),
        sa.Column("form", sa.String(16), nullable=False),
        sa.Column("scheme", sa.String(16), nullable=False),
        sa.Column("hotkey", sa.String(80), nullable=False, index=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("competition", sa.String(512), nullable=False),
        sa.Column("content_root", sa.String(80)),
        sa.Column("opens", sa.String(80)),
        sa.Column("blob", sa.String(80), nullable=False),
        sa.Column("log_index", sa.BigInteger, nullable=False, index=True),
        sa.Column("submitted_by", sa.String(80), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("attestation_claims", "attestation", ["content_root", "genesis", "netuid"])
    op.create_table(
        "lineage",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("declared", sa.String(80), index=True),
        sa.Column("parent", sa.String(80), nullable=False, index=True),
        sa.Column("child", sa.String(80), nullable=False, index=True),
        sa.Column("judgement", sa.String(16), nullable=False),
        sa.Column("relation", sa.String(16)),
        sa.Column("evidence", sa.String(80)),
        sa.Column("judged_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "anchor",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False, index=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("hotkey", sa.String(64), nullable=False),
        sa.Column("block", sa.BigInteger, nullable=False),
        sa.Column("extrinsic", sa.BigInteger, nullable=False),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("digest", "genesis", "block", "extrinsic", name="anchor_once"),
    )
    op.create_table(
        "request_nonce",
        sa.Column("hotkey", sa.String(80), primary_key=True),
        sa.Column("nonce", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, index=True),
    )
    op.create_table(
        "request_answer",
        sa.Column("hotkey", sa.String(80), primary_key=True),
        sa.Column("key", sa.String(255), primary_key=True),
        sa.Column("request", sa.String(80), nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, index=True),
    )
