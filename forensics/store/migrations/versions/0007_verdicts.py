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
        "examination",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entry.id", ondelete="RESTRICT"), nullable=False),
        sa.Column("detector", sa.String(80), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("findings", sa.LargeBinary, nullable=False),
        sa.Column("examined_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("entry_id", "detector", "number", name="examination_once"),
    )
    op.create_table(
        "verdict",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("entry_id", sa.Integer, sa.ForeignKey("entry.id", ondelete="RESTRICT"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
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
        sa.UniqueConstraint("entry_id", "number", name="verdict_once"),
    )
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
    for statement in _triggers(op.get_bind().dialect.name):
        op.get_bind().exec_driver_sql(statement)


def _triggers(dialect: str) -> list[str]:
    """Refuse to change or lose a row; the only change is a snapshot's leaf, once."""
    if dialect == "sqlite":
        return [*_sqlite("finding"), *_sqlite("examination"), *_sqlite("verdict"), *_sqlite("snapshot", leaf=True)]
    made = [
        "CREATE FUNCTION verdicts_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION USING MESSAGE = TG_TABLE_NAME || ' is append-only'; END $$",
        "CREATE FUNCTION snapshot_leaf_once() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF OLD.leaf IS NOT NULL OR NEW.leaf IS NULL OR "
        f"({', '.join('NEW.' + c for c in _SIGNED)}) IS DISTINCT FROM ({', '.join('OLD.' + c for c in _SIGNED)}) THEN "
        "RAISE EXCEPTION 'snapshot is append-only'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER snapshot_leaf_once BEFORE UPDATE ON snapshot "
        "FOR EACH ROW EXECUTE FUNCTION snapshot_leaf_once()",
    ]
    for table in ("finding", "examination", "verdict", "snapshot"):
        verbs = "DELETE OR TRUNCATE" if table == "snapshot" else "UPDATE OR DELETE OR TRUNCATE"
        made.append(
            f"CREATE TRIGGER {table}_append_only BEFORE {verbs} ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION verdicts_append_only()"
        )
    return made


_SIGNED = ("id", "genesis", "netuid", "sequence", "block", "digest", "content", "envelope", "issued_at", "expires_at")

_UNIQUE = {
    "finding": ("entry_id", "digest"),
    "examination": ("entry_id", "detector", "number"),
    "verdict": ("entry_id", "number"),
    "snapshot": ("genesis", "netuid", "sequence"),
}


def _sqlite(table: str, *, leaf: bool = False) -> list[str]:
    refuse = f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
    same = " AND ".join(f"{column} = NEW.{column}" for column in _UNIQUE[table])
    changed = " OR ".join(f"NEW.{column} IS NOT OLD.{column}" for column in _SIGNED)
    when = f" WHEN OLD.leaf IS NOT NULL OR NEW.leaf IS NULL OR {changed}" if leaf else ""
    return [
        f"CREATE TRIGGER {table}_no_update BEFORE UPDATE ON {table}{when} {refuse}",
        f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} {refuse}",
        f"CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table} "  # noqa: S608 - names are constants
        f"WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id OR ({same})) {refuse}",
    ]
