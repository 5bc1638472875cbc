"""Nearest known models by brute force over compact vectors, for what no exact or banded key survives.

The symmetry-invariant vector of a fingerprint stays near for rotated copies and for descendants; the basis vector
tells models of one base apart. Ten thousand of each are 20 MB at most and one matrix product away. They are kept in a
file in the home (derived data: deleted, it is built again), grown as models are added and mapped, not read.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from ..store.tables import IdentityRow, VectorRow
from .keys import space_of

if TYPE_CHECKING:
    from fingerprint.fingerprint import Fingerprint

DTYPE = np.dtype("<f4")
CACHE_VERSION = 1
SLACK = 64  # rows looked at more closely beyond those asked for
BATCH = 2000  # rows fetched at a time while the cache grows


def spaces(fingerprint: Fingerprint) -> dict[str, np.ndarray]:
    """The vectors of a fingerprint by space; only vectors of one space compare."""
    found = {}
    for kind, vector in (("global", fingerprint.global_vector), ("basis", fingerprint.basis_vector)):
        values = np.asarray(vector, dtype=DTYPE).reshape(-1)
        if values.size and np.isfinite(values).all() and values.any():
            found[f"{kind}/{values.size}/{space_of(fingerprint)}"] = values
    return found


@dataclass(frozen=True)
class Table:
    """All vectors of one space: ids ascending, int64 (n,), and float32 (n, d)."""

    ids: np.ndarray
    rows: np.ndarray

    @cached_property
    def halves(self) -> np.ndarray:
        """Half the squared length of each row, float32 (n,)."""
        return np.asarray(0.5 * np.einsum("ij,ij->i", self.rows, self.rows))

    def nearest(self, query: np.ndarray, count: int) -> list[tuple[int, float]]:
        """(model id, Euclidean distance) of the ``count`` nearest, nearest first.

        One matrix product finds somewhat more than are asked for, and their differences put them in order: distances
        from inner products lose the digits in which siblings differ.
        """
        if not len(self.ids):
            return []
        closeness = self.rows @ query - self.halves
        found = np.argpartition(-closeness, min(count + SLACK, len(closeness)) - 1)[: count + SLACK]
        difference = self.rows[found].astype(np.float64) - query
        squares = np.einsum("ij,ij->i", difference, difference)
        order = np.lexsort((self.ids[found], squares))[:count]
        return [(int(self.ids[found[i]]), float(np.sqrt(squares[i]))) for i in order]


class Vectors:
    """Tables by space, kept in step with the database.

    Args:
        folder: Where the cache files lie; None keeps them in memory only.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._tables: dict[str, Table] = {}

    def table(self, session: Session, space: str) -> Table:
        """The table of a space, with every model that the session sees."""
        identity = session.execute(select(IdentityRow.value)).scalar_one()
        cached = self._tables.get(space) or self._load(space, identity)
        count, last = session.execute(
            select(func.count(), func.max(VectorRow.model_id)).where(VectorRow.space == space)
        ).one()
        if len(cached.ids) != count or (count and int(cached.ids[-1]) != last):
            cached = self._grow(session, space, cached)
            self._save(space, identity, cached)
        self._tables[space] = cached
        return cached

    def _grow(self, session: Session, space: str, cached: Table) -> Table:
        """Add what is new. A gap below the newest cached id (a slower writer committed late) means building anew."""
        newest = int(cached.ids[-1]) if len(cached.ids) else 0
        below = session.execute(
            select(func.count()).where(VectorRow.space == space, VectorRow.model_id <= newest)
        ).scalar_one()
        if below != len(cached.ids):
            cached, newest = _empty(space), 0
        query = select(VectorRow.model_id, VectorRow.data).where(VectorRow.space == space, VectorRow.model_id > newest)
        ids, rows = [cached.ids], [cached.rows]
        for part in session.execute(query.order_by(VectorRow.model_id)).partitions(BATCH):
            ids.append(np.array([row.model_id for row in part], dtype=np.int64))
            rows.append(_stack((row.data for row in part), cached.rows.shape[1]))
        return Table(np.concatenate(ids), np.concatenate(rows))

    def _load(self, space: str, identity: str) -> Table:
        """The cache file of a space, or an empty table when it is absent, damaged or another database's."""
        if self._folder is None:
            return _empty(space)
        try:
            with (self._folder / _file(space)).open("rb") as file:
                head = json.loads(file.readline(4096))
                offset = file.tell()
            count, width = int(head["count"]), _width(space)
            expected = _head(space, identity, count)
            size = (self._folder / _file(space)).stat().st_size
            if head != expected or size != offset + count * (8 + 4 * width):
                return _empty(space)
            flat = np.memmap(self._folder / _file(space), dtype=np.uint8, mode="r", offset=offset)
        except (OSError, ValueError, KeyError, TypeError):
            return _empty(space)
        ids = np.frombuffer(flat[: 8 * count].tobytes(), dtype="<i8")
        return Table(ids, np.asarray(flat[8 * count :]).view(DTYPE).reshape(count, width))

    def _save(self, space: str, identity: str, table: Table) -> None:
        """Write the cache beside itself and rename; a full disk costs only speed."""
        if self._folder is None:
            return
        temporary = self._folder / f".{_file(space)}-{secrets.token_hex(6)}"
        head = json.dumps(_head(space, identity, len(table.ids))).encode()
        padding = b" " * (-(len(head) + 1) % 64)  # keep the numbers aligned in the map
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(head + padding + b"\n")
                file.write(table.ids.astype("<i8").tobytes())
                file.write(np.ascontiguousarray(table.rows, dtype=DTYPE).tobytes())
            os.replace(temporary, self._folder / _file(space))
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _head(space: str, identity: str, count: int) -> dict[str, object]:
    return {"version": CACHE_VERSION, "identity": identity, "space": space, "count": count}


def _empty(space: str) -> Table:
    return Table(np.empty(0, dtype=np.int64), np.empty((0, _width(space)), dtype=DTYPE))


def _width(space: str) -> int:
    return int(space.split("/")[1])


def _stack(blobs: Iterable[bytes], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(blobs), dtype=DTYPE).reshape(-1, width)


def _file(space: str) -> str:
    return space.replace("/", "-") + ".vectors"
