"""SCORES: hotkey,revision,block,extrinsic,environment,item,score[,uid] as CSV or Parquet.

One row is one answer of one model to one item. Rows come in any order. Items that a model did not answer are absent;
an answer that failed is a row with whatever the environment gives for failing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from ..errors import BadInput, UsageError
from ..known import address
from ..tables import Line, open_table
from .field import MAX_CELLS, MAX_ENVIRONMENTS, MAX_SUBMISSIONS, Environment, Field, Items, Submission, in_order
from .policy import Policy

COLUMNS: Final = ("hotkey", "revision", "block", "extrinsic", "environment", "item", "score")
OPTIONAL: Final = ("uid",)
MAX_NAME: Final = 200
MAX_NUMBER: Final = (1 << 53) - 1
MAX_SCORE: Final = 1e30
"""Larger ones overflow where comparisons are made in float32 first."""
_NATURAL: Final = re.compile(r"0|[1-9][0-9]{0,15}")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass
class _Measured:
    """One environment while it is read: score of each (submission, item), both by number."""

    items: dict[str, int] = field(default_factory=dict)
    scores: dict[tuple[int, int], float] = field(default_factory=dict)


def read_table(path: Path, policy: Policy) -> Field:
    """Read a table of scores.

    Raises:
        Unavailable: It cannot be read.
        BadInput: It is no such table; the message names line and column.
    """
    table = open_table(path, required=COLUMNS, optional=OPTIONAL)
    submissions: dict[tuple[str, str], Submission] = {}
    numbers: dict[tuple[str, str], int] = {}
    measured: dict[str, _Measured] = {}
    for line in table.lines():
        where = f"{path}: line {line.number}"
        submission = _submission(line, where)
        key = submission.hotkey, submission.revision
        known = submissions.setdefault(key, submission)
        if known != submission:
            raise _contradiction(known, submission, where)
        number = numbers.setdefault(key, len(numbers))
        _add(measured, number, line.cells[4:7], where)
    if not submissions:
        raise BadInput("no scores", where=str(path), expected="at least one row")
    notes = [f"columns that are not read: {', '.join(table.unknown)}"] if table.unknown else []
    return _field(list(submissions.values()), measured, policy, tuple(notes), str(path))


def _submission(line: Line, where: str) -> Submission:
    hotkey, revision, block, extrinsic = line.cells[:4]
    uid = line.cells[7]
    return Submission(
        hotkey=_hotkey(hotkey, f"{where}: hotkey"),
        revision=_name(revision, f"{where}: revision"),
        block=_natural(block, f"{where}: block"),
        extrinsic=_natural(extrinsic, f"{where}: extrinsic"),
        uid=_natural(uid, f"{where}: uid") if uid and uid != "-1" else None,
    )


def _add(measured: dict[str, _Measured], number: int, cells: Sequence[str], where: str) -> None:
    name, item, score = cells
    environment = measured.setdefault(_name(name, f"{where}: environment"), _Measured())
    place = number, environment.items.setdefault(_name(item, f"{where}: item"), len(environment.items))
    if place in environment.scores:
        raise BadInput("the same item twice for one model", where=where, got=f"{name}: {item}", expected="one score")
    environment.scores[place] = _score(score, f"{where}: score")
    if len(measured) > MAX_ENVIRONMENTS or number >= MAX_SUBMISSIONS:
        raise BadInput(
            "too many models or environments",
            where=where,
            expected=f"at most {MAX_SUBMISSIONS} models and {MAX_ENVIRONMENTS} environments",
        )


def _field(
    submissions: Sequence[Submission],
    measured: dict[str, _Measured],
    policy: Policy,
    notes: tuple[str, ...],
    where: str,
) -> Field:
    order = in_order(submissions)
    environments: list[Environment] = []
    for name in sorted(measured):
        found, rule = measured[name], policy.environment(name)
        if len(submissions) * len(found.items) > MAX_CELLS:
            raise BadInput("too many items", where=f"{where}: {name}", got=len(found.items))
        scores = np.full((len(submissions), len(found.items)), np.nan)
        places = np.array(list(found.scores), dtype=np.intp)
        scores[places[:, 0], places[:, 1]] = list(found.scores.values())
        environments.append(Items(name, -scores[order] if rule.lower_is_better else scores[order], rule))
    return Field(tuple(submissions[i] for i in order), tuple(environments), notes)


def _contradiction(known: Submission, other: Submission, where: str) -> BadInput:
    for name in ("block", "extrinsic", "uid"):
        if getattr(known, name) != getattr(other, name):
            return BadInput(
                f"one model has two values of {name}",
                where=where,
                got=getattr(other, name),
                expected=getattr(known, name),
            )
    return BadInput("one model comes twice", where=where)


def _hotkey(text: str, where: str) -> str:
    try:
        return _address(_name(text, where))
    except UsageError as error:
        raise BadInput("not a hotkey", where=where, got=error.got, expected=error.expected) from None


@lru_cache(maxsize=4096)
def _address(text: str) -> str:
    return address.normalise(text)[0]


def _name(text: str, where: str) -> str:
    if not text or len(text) > MAX_NAME or not text.isprintable():
        raise BadInput("not a name", where=where, got=ascii(text[:100]), expected=f"1 to {MAX_NAME} characters")
    return text


def _natural(text: str, where: str) -> int:
    if not _NATURAL.fullmatch(text) or int(text) > MAX_NUMBER:
        raise BadInput("not a whole number", where=where, got=text[:100] or "nothing", expected=f"0..{MAX_NUMBER}")
    return int(text)


def _score(text: str, where: str) -> float:
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not abs(value) <= MAX_SCORE:
        raise BadInput("not a finite number", where=where, got=text[:100] or "nothing", expected="a decimal number")
    return value
