"""Results that are kept, so that every epoch is judged with the ones before it.

The same rows twice are one batch. Rows that contradict what is kept (another exposure of an item, another score by the
same reporter) are refused whole: whoever could overwrite a score could clear a miner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import ColumnElement, Engine, func, select
from sqlalchemy.orm import Session

from detectors.overfit.results import NOBODY, Results, Row

from ..errors import BadInput
from ..place import Place
from ..store.engine import reading, writing
from .tables import ResultBatchRow, ResultItemRow, ResultScoreRow

CHUNK: Final = 5_000
_Key = tuple[int, str, str]


@dataclass(frozen=True)
class Kept:
    """What happened to a batch.

    Args:
        digest: Digest of its rows.
        new: Whether it was not known before.
        scores: Scores that were added.
    """

    digest: str
    new: bool
    scores: int


class ResultStore:
    """Results of one competition in the service's database.

    Args:
        engine: A database at the newest schema.
        place: Chain, subnet and competition: epochs are numbered within these.
        clock: When a batch came.
    """

    def __init__(
        self, engine: Engine, place: Place, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._engine, self._place, self._clock = engine, place, clock

    def add(self, results: Results, *, reporter: str = "") -> Kept:
        """Keep all rows, or none.

        Args:
            results: The rows.
            reporter: Hotkey of the validator that measured; empty for one's own.

        Raises:
            BadInput: They contradict what is kept.
        """
        digest = results.digest()
        with writing(self._engine) as session:
            known = select(ResultBatchRow.id).where(
                *_here(ResultBatchRow, self._place),
                ResultBatchRow.digest == digest,
                ResultBatchRow.reporter == reporter,
            )
            if session.scalar(known) is not None:
                return Kept(digest, False, 0)
            batch = ResultBatchRow(
                **vars(self._place),
                digest=digest,
                reporter=reporter,
                rows=int(results.score.size),
                added_at=self._clock(),
            )
            session.add(batch)
            session.flush()
            items = _items(session, results, self._place)
            return Kept(digest, True, _scores(session, results, items, reporter, batch.id))

    def rows(self, *, reporter: str = "", since: int = 0) -> Iterator[Row]:
        """Rows of a reporter from epoch ``since`` on, by epoch, environment, item and hotkey."""
        query = (
            select(ResultItemRow, ResultScoreRow.hotkey, ResultScoreRow.score)
            .join(ResultScoreRow, ResultScoreRow.item_id == ResultItemRow.id)
            .where(
                *_here(ResultItemRow, self._place), ResultScoreRow.reporter == reporter, ResultItemRow.epoch >= since
            )
            .order_by(ResultItemRow.epoch, ResultItemRow.environment, ResultItemRow.item, ResultScoreRow.hotkey)
        )
        with reading(self._engine) as session:
            for item, hotkey, score in session.execute(query.execution_options(yield_per=CHUNK)):
                yield Row(item.epoch, hotkey, item.environment, item.item, item.exposed, score, item.validator)

    def epochs(self, *, reporter: str = "") -> dict[int, int]:
        """Number of scores of a reporter by epoch."""
        query = (
            select(ResultItemRow.epoch, func.count())
            .join(ResultScoreRow, ResultScoreRow.item_id == ResultItemRow.id)
            .where(*_here(ResultItemRow, self._place), ResultScoreRow.reporter == reporter)
            .group_by(ResultItemRow.epoch)
            .order_by(ResultItemRow.epoch)
        )
        with reading(self._engine) as session:
            return {int(epoch): int(number) for epoch, number in session.execute(query)}


def _here(table: type[ResultBatchRow | ResultItemRow], place: Place) -> tuple[ColumnElement[bool], ...]:
    return table.genesis == place.genesis, table.netuid == place.netuid, table.competition == place.competition


def _items(session: Session, results: Results, place: Place) -> list[int]:
    """Row of each item in the store; new ones are added."""
    facts = [_facts(results, index) for index in range(len(results.items))]
    epochs = sorted({key[0] for key, *_ in facts})
    kept = {(i.epoch, i.environment, i.item): i for i in _chunked_items(session, epochs, place)}
    for key, exposed, validator in facts:
        found = kept.get(key)
        if found is None:
            what = {"epoch": key[0], "environment": key[1], "item": key[2], "exposed": exposed, "validator": validator}
            kept[key] = ResultItemRow(**vars(place), **what)
            session.add(kept[key])
        elif (found.exposed, found.validator) != (exposed, validator):
            raise BadInput(
                "the item is kept with another exposure",
                where=f"epoch {key[0]}, {key[1]}, item {key[2]}",
                got=f"exposed {int(exposed)}, validator {validator or 'none'}",
                expected=f"exposed {int(found.exposed)}, validator {found.validator or 'none'}",
            )
    session.flush()
    return [kept[key].id for key, *_ in facts]


def _chunked_items(session: Session, epochs: list[int], place: Place) -> Iterator[ResultItemRow]:
    for epoch in epochs:
        query = select(ResultItemRow).where(*_here(ResultItemRow, place), ResultItemRow.epoch == epoch)
        yield from session.scalars(query)


def _facts(results: Results, index: int) -> tuple[_Key, bool, str | None]:
    cell, validator = results.cells[results.item_cell[index]], results.item_validator[index]
    name = None if validator == NOBODY else results.validators[validator]
    return (cell.epoch, cell.environment, results.items[index]), bool(results.item_exposed[index]), name


def _scores(session: Session, results: Results, items: list[int], reporter: str, batch: int) -> int:
    added = 0
    order = results.item.argsort(kind="stable")
    for start in range(0, order.size, CHUNK):
        rows = order[start : start + CHUNK]
        wanted = {(items[results.item[r]], results.hotkeys[results.miner[r]]): float(results.score[r]) for r in rows}
        kept = _kept_scores(session, {item for item, _ in wanted}, reporter)
        for (item, hotkey), score in wanted.items():
            before = kept.get((item, hotkey))
            if before is not None and before != score:
                raise BadInput(
                    "another score is kept",
                    where=_place(session, item, hotkey),
                    got=score,
                    expected=before,
                    remedy="A score that was handed in cannot be changed.",
                )
        fresh = [
            {"item_id": item, "hotkey": hotkey, "reporter": reporter, "batch_id": batch, "score": score}
            for (item, hotkey), score in wanted.items()
            if (item, hotkey) not in kept
        ]
        if fresh:
            session.execute(ResultScoreRow.__table__.insert(), fresh)  # type: ignore[attr-defined]
        added += len(fresh)
    return added


def _kept_scores(session: Session, items: Iterable[int], reporter: str) -> dict[tuple[int, str], float]:
    found: dict[tuple[int, str], float] = {}
    ordered = sorted(items)
    for start in range(0, len(ordered), 500):  # SQLite takes so many parameters at once
        query = select(ResultScoreRow.item_id, ResultScoreRow.hotkey, ResultScoreRow.score).where(
            ResultScoreRow.reporter == reporter, ResultScoreRow.item_id.in_(ordered[start : start + 500])
        )
        found |= {(item, hotkey): score for item, hotkey, score in session.execute(query)}
    return found


def _place(session: Session, item: int, hotkey: str) -> str:
    row = session.get_one(ResultItemRow, item)
    return f"epoch {row.epoch}, {row.environment}, item {row.item}, hotkey {hotkey}"
