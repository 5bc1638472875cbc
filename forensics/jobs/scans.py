"""Which files were fingerprinted already: the same bytes are never fingerprinted twice, whoever submits them."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError

from ..place import Clock, now
from ..store.blobs import digest_of
from ..store.engine import reading, writing
from ..store.entries import ScanRow


@dataclass(frozen=True)
class Scanned:
    """A fingerprint that was made.

    Attributes:
        content_root: Of what.
        blob: Where its bytes lie.
    """

    content_root: str
    blob: str


class Scans:
    """Fingerprints by the digest of the files they were made from, and by algorithm.

    Args:
        engine: The database.
        clock: The time, for the record only.
    """

    def __init__(self, engine: Engine, *, clock: Clock = now) -> None:
        self._engine, self._clock = engine, clock

    def find(self, files: str, algorithm: str) -> Scanned | None:
        """The fingerprint of these files, when it was made."""
        with reading(self._engine) as session:
            row = session.get(ScanRow, (files, _named(algorithm)))
            return None if row is None else Scanned(row.content_root, row.blob)

    def add(self, files: str, algorithm: str, made: Scanned) -> None:
        """Remember a fingerprint; a second time changes nothing."""
        with writing(self._engine) as session:
            if session.get(ScanRow, (files, _named(algorithm))) is not None:
                return
            try:
                with session.begin_nested():
                    session.add(
                        ScanRow(
                            files=files,
                            algorithm=_named(algorithm),
                            content_root=made.content_root,
                            blob=made.blob,
                            scanned_at=self._clock(),
                        )
                    )
            except IntegrityError:  # PostgreSQL: another worker was as fast
                return


def _named(algorithm: str) -> str:
    """A key of fixed length: the algorithm's name spells out every parameter."""
    return digest_of(algorithm.encode())
