"""Which known models may be related to a fingerprint: a short list, made quickly, to be verified one by one.

Three rankings are merged. Shared keys (exact digests, LSH bands, invariant codes) come from an inverted list in SQL
and weigh by how rare they are; a key that very many models share says nothing and is left out, so ten thousand
fine-tunes of one base cost no more than ten thousand strangers. The invariant vector finds rotated copies and
descendants, the basis vector tells siblings apart. Equal roots always come first. The list is for recall: what is
true of a model on it, only a comparison says.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Engine, insert, select, text
from sqlalchemy.orm import Session

from ..store.engine import reading
from ..store.tables import PostingRow, SubmissionRow, VectorRow
from .keys import Keys, Kind, keys
from .vectors import Vectors, spaces

if TYPE_CHECKING:
    from fingerprint.fingerprint import Fingerprint

COMMON = 16  # models; a key shared by more is skipped
SAME = 64  # models with an equal root that are looked at, the first that were added
WEIGHT: Mapping[Kind, float] = {
    Kind.ROOT: 1000.0,  # above all others together
    Kind.TENSOR: 3.0,
    Kind.HEAD: 2.0,
    Kind.UNIT: 1.0,
    Kind.SIGN: 1.0,
    Kind.MINHASH: 1.0,
}
CROWD, CROWD_RATIO, CROWD_FLOOR = 256, 3.0, 0.02  # models; of the nearest distance; what rounding to float16 leaves
INSERT_BATCH = 500
_LISTED = {
    "sqlite": "(SELECT value AS key FROM json_each(:keys))",
    "postgresql": "(SELECT CAST(value AS bigint) AS key FROM json_array_elements_text(CAST(:keys AS json)) AS value)",
}
_RARE = {
    # Models of every key that at most :common models have; one range read a key, whatever its number of models.
    dialect: text(
        f"SELECT p.key, p.model_id FROM {listed} AS k JOIN posting AS p ON p.key = k.key "  # noqa: S608 - constants
        "WHERE NOT EXISTS (SELECT 1 FROM posting AS q WHERE q.key = k.key ORDER BY q.model_id LIMIT 1 OFFSET :common)"
    )
    for dialect, listed in _LISTED.items()
}


@dataclass(frozen=True)
class Candidate:
    """A known model worth comparing with.

    Attributes:
        model_id: Which.
        shared: Score of shared keys; 0 when only vectors found it.
        distance: Distance of invariant vectors; infinite when only keys found it.
    """

    model_id: int
    shared: float
    distance: float


@dataclass(frozen=True)
class Entries:
    """What the index keeps of one fingerprint, ready to be written in the transaction that adds the model."""

    keys: Keys
    vectors: Mapping[str, bytes]

    @classmethod
    def of(cls, fingerprint: Fingerprint) -> Entries:
        """Everything that takes time, done before a transaction starts."""
        vectors = {space: vector.tobytes() for space, vector in spaces(fingerprint).items()}
        return cls(keys(fingerprint), vectors)


class Index:
    """Search among known models.

    Args:
        engine: The database.
        folder: Where derived files may be cached; None keeps them in memory.
    """

    def __init__(self, engine: Engine, folder: Path | None = None) -> None:
        self._engine = engine
        self._vectors = Vectors(folder)

    @staticmethod
    def write(session: Session, model_id: int, entries: Entries, *, again: bool = False) -> None:
        """Add a model's entries in the caller's transaction.

        Args:
            session: The transaction.
            model_id: The model.
            entries: What to add.
            again: The model has entries of another algorithm; the exact ones are the same and are left.
        """
        there: set[int] = set()
        if again:
            keys_in = PostingRow.key.in_(list(entries.keys.stored))
            there = set(session.scalars(select(PostingRow.key).where(PostingRow.model_id == model_id, keys_in)))
        rows = [{"key": key, "model_id": model_id} for key in sorted(entries.keys.stored) if key not in there]
        for start in range(0, len(rows), INSERT_BATCH):
            session.execute(insert(PostingRow), rows[start : start + INSERT_BATCH])
        old = set(session.scalars(select(VectorRow.space).where(VectorRow.model_id == model_id))) if again else set()
        added = {space: data for space, data in entries.vectors.items() if space not in old}
        vectors = [{"space": space, "model_id": model_id, "data": data} for space, data in added.items()]
        if vectors:
            session.execute(insert(VectorRow), vectors)

    def candidates(self, fingerprint: Fingerprint, limit: int, *, without: Iterable[int] = ()) -> list[int]:
        """Ids of at most ``limit`` models, most promising first; models whose every claim is withdrawn are left out.

        Args:
            fingerprint: The query.
            limit: How many.
            without: Models to leave out.
        """
        return [c.model_id for c in self.search(fingerprint, limit, without=without)]

    def search(self, fingerprint: Fingerprint, limit: int, *, without: Iterable[int] = ()) -> list[Candidate]:
        """As ``candidates``, with what was found."""
        wanted, skip = keys(fingerprint), frozenset(without)
        with reading(self._engine) as session:
            shared = self._shared(session, wanted)
            rankings = [sorted(shared, key=lambda m: (-shared[m], m))]
            distances: dict[int, float] = {}
            for space, vector in spaces(fingerprint).items():
                near = self._vectors.table(session, space).nearest(vector, 4 * limit + len(skip))
                rankings.append([model_id for model_id, _ in near])
                if space.startswith("global/"):
                    distances.update(near)
            certain = [m for m in rankings[0] if shared[m] >= WEIGHT[Kind.ROOT]]
            order = [m for m in _interleaved([certain, *rankings], first=len(certain)) if m not in skip]
            chosen = _active(session, order, limit)
        return [Candidate(m, shared.get(m, 0.0), distances.get(m, math.inf)) for m in chosen]

    def crowd(self, fingerprint: Fingerprint) -> list[int]:
        """Ids of at most ``CROWD`` models that lie about as near as the nearest one does, by either vector.

        Where an original was copied many times, any of its copies may be nearer than it; who was first among them is
        then looked up by claim, not by distance.
        """
        found: dict[int, None] = {}
        with reading(self._engine) as session:
            for space, vector in spaces(fingerprint).items():
                near = self._vectors.table(session, space).nearest(vector, CROWD)
                radius = CROWD_RATIO * near[0][1] + CROWD_FLOOR if near else 0.0
                found.update((model_id, None) for model_id, distance in near if distance <= radius)
        return list(found)

    def _shared(self, session: Session, wanted: Keys) -> dict[int, float]:
        """Score of every model that shares a key that few share."""
        statement = _RARE[session.get_bind().dialect.name]
        found: dict[int, list[int]] = defaultdict(list)
        parameters = {"keys": json.dumps([k for k, kind in wanted.probes.items() if kind is not Kind.ROOT])}
        for key, model_id in session.execute(statement, {**parameters, "common": COMMON}):
            found[key].append(model_id)
        for key in (k for k, kind in wanted.probes.items() if kind is Kind.ROOT):
            query = select(PostingRow.model_id).where(PostingRow.key == key).order_by(PostingRow.model_id).limit(SAME)
            found[key] += session.scalars(query)
        scores: dict[int, float] = defaultdict(float)
        for key, models in found.items():
            weight = WEIGHT[wanted.probes[key]] * (1 + math.log(max(1.0, COMMON / max(1, len(models)))))
            for model_id in models:
                scores[model_id] += weight
        return scores


def _interleaved(rankings: Sequence[Sequence[int]], *, first: int) -> list[int]:
    """The first ranking's head, then one from each in turn, without repeats."""
    order = dict.fromkeys(rankings[0][:first])
    for row in zip_longest(*rankings[1:]):
        order.update(dict.fromkeys(model for model in row if model is not None))
    return list(order)


def _active(session: Session, order: Sequence[int], limit: int) -> list[int]:
    """The first ``limit`` of ``order`` that somebody still claims."""
    chosen: list[int] = []
    step = max(64, 2 * limit)
    for start in range(0, len(order), step):
        part = order[start : start + step]
        query = select(SubmissionRow.model_id).where(
            SubmissionRow.model_id.in_(part), SubmissionRow.withdrawn_at.is_(None)
        )
        alive = set(session.scalars(query))
        chosen += [m for m in part if m in alive]
        if len(chosen) >= limit:
            return chosen[:limit]
    return chosen
