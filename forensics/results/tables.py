"""The schema of results: items with their exposure, and scores on them by whoever measured.

Epochs are numbered within a subnet's competition, so everything is kept by chain, subnet and competition too. Rows are
only ever added. An item's exposure is a fact of its epoch, so it is kept once; a score belongs to the
reporter that measured it, for two validators may score the same miner on the same item and differ.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, Float, ForeignKey, Index, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from ..store.tables import DIGEST, Base, Utc

NAME = String(200)


class ResultBatchRow(Base):
    """One table that was handed in: who measured, when it came, and the digest of its rows."""

    __tablename__ = "result_batch"
    __table_args__ = (
        UniqueConstraint("genesis", "netuid", "competition", "digest", "reporter", name="result_batch_identity"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    competition: Mapped[str] = mapped_column(String(512))
    digest: Mapped[str] = mapped_column(DIGEST)
    reporter: Mapped[str] = mapped_column(NAME)
    rows: Mapped[int] = mapped_column(BigInteger)
    added_at: Mapped[datetime] = mapped_column(Utc)


class ResultItemRow(Base):
    """An item of an epoch; ``validator`` alone received it, for tracers."""

    __tablename__ = "result_item"
    __table_args__ = (
        UniqueConstraint(
            "genesis", "netuid", "competition", "epoch", "environment", "item", name="result_item_identity"
        ),
    )

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    genesis: Mapped[str] = mapped_column(String(66))
    netuid: Mapped[int]
    competition: Mapped[str] = mapped_column(String(512))
    epoch: Mapped[int] = mapped_column(BigInteger)
    environment: Mapped[str] = mapped_column(NAME)
    item: Mapped[str] = mapped_column(NAME)
    exposed: Mapped[bool] = mapped_column(Boolean)
    validator: Mapped[str | None] = mapped_column(NAME)


class ResultScoreRow(Base):
    """A score of a miner on an item, as a reporter measured it."""

    __tablename__ = "result_score"
    __table_args__ = (Index("result_score_reporter", "reporter"), {"sqlite_with_rowid": False})

    item_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("result_item.id", ondelete="RESTRICT"), primary_key=True, autoincrement=False
    )
    hotkey: Mapped[str] = mapped_column(NAME, primary_key=True)
    reporter: Mapped[str] = mapped_column(NAME, primary_key=True)
    batch_id: Mapped[int] = mapped_column(ForeignKey("result_batch.id", ondelete="RESTRICT"))
    score: Mapped[float] = mapped_column(Float)
