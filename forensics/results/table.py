"""RESULTS: epoch,hotkey,environment,item,exposed,score[,validator][,cluster].

``exposed`` is 1 (or true) for an item that could be known before the epoch, else 0 (or false). ``validator`` names the
only validator that received an item, for tracers. ``cluster`` puts hotkeys of one operator or one model together; a
file of its own (hotkey,cluster) does the same, as ``forensics sybil`` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from detectors.errors import MalformedFacts
from detectors.overfit.results import Row

from ..errors import BadInput, UsageError
from ..known import address
from ..tables import Line, Table, open_table

COLUMNS: Final = ("epoch", "hotkey", "environment", "item", "exposed", "score")
OPTIONAL: Final = ("validator", "cluster")
MAX_EPOCH: Final = (1 << 53) - 1
MAX_NAME: Final = 200
"""Characters of a hotkey, environment, item, validator or cluster; the store's columns are as wide."""
_BOOLEANS: Final = {"0": False, "1": True, "false": False, "true": True}
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_NATURAL: Final = re.compile(r"0|[1-9][0-9]{0,15}")


class ResultsFile:
    """A results table.

    Args:
        path: CSV or Parquet.

    Attributes:
        clusters: Cluster of each hotkey that has one, once all rows were read.
        unknown: Columns that are not part of the contract; they are not read.
    """

    def __init__(self, path: Path) -> None:
        self._table: Table = open_table(path, required=COLUMNS, optional=OPTIONAL)
        self.unknown = self._table.unknown
        self.clusters: dict[str, str] = {}

    def rows(self) -> Iterator[Row]:
        """Rows in the order of the file.

        Raises:
            BadInput: A cell that is not what its column asks for; the message names line and column.
        """
        for line in self._table.lines():
            yield self._row(line)

    def _row(self, line: Line) -> Row:
        epoch, hotkey, environment, item, exposed, score, validator, cluster = line.cells
        miner = _hotkey(hotkey, self._where(line, "hotkey"))
        if cluster:
            self._belongs(miner, _name(cluster, self._where(line, "cluster")), line)
        return Row(
            epoch=_epoch(epoch, self._where(line, "epoch")),
            hotkey=miner,
            environment=_name(environment, self._where(line, "environment")),
            item=_name(item, self._where(line, "item")),
            exposed=_boolean(exposed, self._where(line, "exposed")),
            score=_score(score, self._where(line, "score")),
            validator=_hotkey(validator, self._where(line, "validator")) if validator else None,
            line=line.number,
        )

    def _belongs(self, hotkey: str, cluster: str, line: Line) -> None:
        before = self.clusters.setdefault(hotkey, cluster)
        if before != cluster:
            raise BadInput(
                "the hotkey is in another cluster in an earlier row",
                where=self._where(line, "cluster"),
                got=cluster,
                expected=before,
            )

    def _where(self, line: Line, column: str) -> str:
        return f"{self._table.path}: line {line.number}: {column}"


def read_clusters(path: Path) -> dict[str, str]:
    """Cluster of each hotkey from a table hotkey,cluster or address,cluster; an empty cluster is none.

    Raises:
        BadInput: No such columns, or a hotkey in two clusters.
    """
    try:
        table = open_table(path, required=("hotkey", "cluster"))
    except BadInput:
        table = open_table(path, required=("address", "cluster"))
    found: dict[str, str] = {}
    for line in table.lines():
        where = f"{path}: line {line.number}"
        if not line.cells[1]:
            continue
        hotkey, cluster = _hotkey(line.cells[0], f"{where}: hotkey"), _name(line.cells[1], f"{where}: cluster")
        if found.setdefault(hotkey, cluster) != cluster:
            raise BadInput("a hotkey in two clusters", where=where, got=cluster, expected=found[hotkey])
    return found


def in_file(error: MalformedFacts, path: Path) -> BadInput:
    """What the analysis says against the rows, with the file's name."""
    return BadInput(
        error.what,
        where=f"{path}: {error.where}" if error.where else str(path),
        got=error.got,
        expected=error.expected,
        remedy=error.remedy,
    )


def _hotkey(text: str, where: str) -> str:
    try:
        return _address(_name(text, where))
    except UsageError as error:
        raise BadInput("not a hotkey", where=where, got=error.got, expected=error.expected) from None


@lru_cache(maxsize=4096)
def _address(text: str) -> str:
    """Under prefix 42; remembered, for a miner comes in thousands of rows."""
    return address.normalise(text)[0]


def _name(text: str, where: str) -> str:
    if not text or len(text) > MAX_NAME:
        raise BadInput("not a name", where=where, got=text[:100] or "nothing", expected=f"1 to {MAX_NAME} characters")
    if not text.isprintable():
        raise BadInput("not a name", where=where, got=ascii(text)[:100], expected="printable characters")
    return text


def _epoch(text: str, where: str) -> int:
    if not _NATURAL.fullmatch(text) or int(text) > MAX_EPOCH:
        raise BadInput("not an epoch", where=where, got=text[:100] or "nothing", expected=f"0 to {MAX_EPOCH}")
    return int(text)


def _boolean(text: str, where: str) -> bool:
    found = _BOOLEANS.get(text.lower())
    if found is None:
        raise BadInput("not a yes or no", where=where, got=text[:100] or "nothing", expected="0, 1, true or false")
    return found


def _score(text: str, where: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise BadInput("not a number", where=where, got=text[:100] or "nothing", expected="a finite decimal number")
    return float(text)
