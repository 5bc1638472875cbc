"""Chain: how far it was read, neurons, commitments, hotkey swaps, gaps."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; see ``store.chain`` for what they mean."""
    op.create_table(
        "chain_sync",
        sa.Column("genesis", sa.String(66), primary_key=True),
        sa.Column("netuid", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("started", sa.BigInteger, nullable=False),
        sa.Column("block", sa.BigInteger, nullable=False),
        sa.Column("block_hash", sa.String(66), nullable=False),
        sa.Column("head", sa.BigInteger, nullable=False),
        sa.Column("synced_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "neuron",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("uid", sa.Integer, nullable=False),
        sa.Column("hotkey", sa.String(64), nullable=False),
        sa.Column("coldkey", sa.String(64), nullable=False),
        sa.Column("registered", sa.BigInteger, nullable=False),
        sa.Column("permit", sa.Boolean, nullable=False),
        sa.Column("endpoint", sa.String(64)),
        sa.Column("registrant", sa.String(64)),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger),
        sa.UniqueConstraint("genesis", "netuid", "uid", "hotkey", "registered", "since", name="neuron_once"),
    )
    op.create_index("neuron_hotkey", "neuron", ["genesis", "netuid", "hotkey"])
    op.create_table(
        "chain_commit",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("hotkey", sa.String(64), nullable=False),
        sa.Column("block", sa.BigInteger, nullable=False),
        sa.Column("extrinsic", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("exact", sa.Boolean, nullable=False),
        sa.Column("sealed_block", sa.BigInteger),
        sa.Column("sealed_extrinsic", sa.BigInteger),
        sa.Column("reveal_round", sa.BigInteger),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("genesis", "netuid", "hotkey", "block", "digest", name="chain_commit_once"),
    )
    op.create_table(
        "hotkey_swap",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("old", sa.String(64), nullable=False),
        sa.Column("new", sa.String(64), nullable=False),
        sa.Column("block", sa.BigInteger, nullable=False),
        sa.Column("extrinsic", sa.BigInteger, nullable=False),
        sa.Column("exact", sa.Boolean, nullable=False),
        sa.UniqueConstraint("genesis", "netuid", "old", "new", "block", name="hotkey_swap_once"),
    )
    op.create_table(
        "chain_gap",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("genesis", sa.String(66), nullable=False),
        sa.Column("netuid", sa.Integer, nullable=False),
        sa.Column("first", sa.BigInteger, nullable=False),
        sa.Column("last", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(200), nullable=False),
        sa.Column("hotkeys", sa.Text, nullable=False),
        sa.Column("found_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("genesis", "netuid", "first", "last", name="chain_gap_once"),
    )
