"""Identifying for callers of the API: a fingerprint in, what it is to the known models out, at sketch depth.

A fingerprint comes from anybody and is read by numerical code, so it is read in a child process with limits on memory
and time (``jobs.sandbox``). Few run at once and few wait: verdict reads share the processor with this, and a queue that
nobody outlives helps nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import ForensicsError
from ..jobs.sandbox import ChildDied, ChildFailed, Limits, Sandbox
from .problems import Problem

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ..settings import Settings

AT_ONCE, WAITING = 1, 8
SECONDS: Final = 60.0
MEMORY: Final = 4 << 30
RETRY_SECONDS: Final = 15
_OURS: Final = frozenset({"StoreUnavailable", "StoreCorrupt", "OSError", "MemoryError"})
Run = Callable[..., tuple[dict[str, Any], bytes]]


@dataclass(frozen=True)
class Question:
    """What is asked.

    Args:
        fingerprint: A fingerprint file's bytes; None to ask about a known model.
        content_root: The known model that is asked about.
        top: How many matches are shown.
        hotkey: Whose the candidate is: own claims accuse nobody.
        block: Block of the candidate's claim, if it has one: later claims accuse nobody.
    """

    fingerprint: bytes | None
    content_root: str | None
    top: int
    hotkey: str
    block: int | None


class Asking:
    """Answers questions, a few at once.

    Args:
        run: ``Sandbox.run``, or something like it.
        places: Keyword arguments that say where the child finds database, blobs and cache.
        limit: How many known models the search proposes.
        at_once: Children at once.
        waiting: Questions that wait.
    """

    def __init__(
        self, run: Run, places: dict[str, str], *, limit: int, at_once: int = AT_ONCE, waiting: int = WAITING
    ) -> None:
        self._run, self._places, self._limit = run, places, limit
        self._turn = threading.BoundedSemaphore(at_once)
        self._seats = threading.BoundedSemaphore(at_once + waiting)

    @classmethod
    def of(cls, settings: Settings, engine: Engine) -> Asking:
        """On this database, and the blobs that the settings name."""
        places = {
            "database": engine.url.render_as_string(hide_password=False),
            "blobs": settings.blobs_url,
            "cache": str(settings.home / "cache"),
        }
        sandbox = Sandbox(Limits(MEMORY, SECONDS), preload=["forensics.api.asking", "forensics.jobs.lab"])
        return cls(sandbox.run, places, limit=settings.candidates)

    def ask(self, question: Question) -> dict[str, Any]:
        """The answer.

        Raises:
            Problem: 429 when too many wait, 422 for a fingerprint that is refused, 503 when a child did not survive.
        """
        with self._seat(), self._turn, _explained():
            document, _ = self._run(
                identify,
                **self._places,
                limit=max(self._limit, question.top),
                fingerprint=question.fingerprint,
                content_root=question.content_root,
                top=question.top,
                hotkey=question.hotkey,
                block=question.block,
            )
            return document

    @contextmanager
    def _seat(self) -> Iterator[None]:
        if not self._seats.acquire(blocking=False):
            headers = {"Retry-After": str(RETRY_SECONDS)}
            raise Problem(429, "identify_busy", "as many identifications wait as may", headers=headers)
        try:
            yield
        finally:
            self._seats.release()


def identify(
    *,
    database: str,
    blobs: str,
    cache: str,
    limit: int,
    fingerprint: bytes | None,
    content_root: str | None,
    top: int,
    hotkey: str,
    block: int | None,
) -> tuple[dict[str, Any], bytes]:
    """In the child: search, compare, describe."""
    import fingerprint.compare as comparing
    from fingerprint.file import loads

    from ..known.claim import Claim, Role
    from ..known.identify import NEAREST, Identifier
    from ..known.index import Index
    from ..known.registry import Registry
    from ..store.blobs import Blobs
    from ..store.engine import connect

    engine = connect(database)
    try:
        registry = Registry(engine, Blobs(blobs))
        if fingerprint is not None:
            candidate, without = loads(fingerprint, where="body"), []
        else:
            model = registry.find(content_root or "")
            candidate, without = registry.fingerprint(model), [model.id]
        identifier = Identifier(registry, Index(engine, Path(cache)), calibration=comparing.load_calibration())
        claim = Claim(Role.SUBMISSION, hotkey=hotkey, block=block).checked()
        found = identifier.identify(
            comparing.Source(candidate, None), limit=limit, nearest=max(NEAREST, top), claim=claim, without=without
        )
        return _document(found, candidate, top), b""
    finally:
        engine.dispose()


def _document(found: Any, candidate: Any, top: int) -> dict[str, Any]:
    """As ``forensics identify --json``, without what only the machine that scanned a model knows."""
    return {
        "candidate": candidate.content_root,
        "algorithm": candidate.algorithm,
        "depth": "sketch",
        "finding": found.finding,
        "false_accusation_probability": float(f"{found.false_accusation_probability:.6g}"),
        "searched": found.searched,
        "proposed": found.proposed,
        "matches": [
            {
                "model": match.model.content_root,
                "base": match.model.is_base,
                "earlier": match.counts,
                "distance": float(f"{match.distance:.6g}"),
                "comparison": match.comparison.as_json(),
            }
            for match in found.matches[:top]
        ],
        "skipped": len(found.skipped),
    }


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ChildFailed as error:
        raise _refusal(error) from None
    except ChildDied as error:
        raise Problem(503, "identify_failed", str(error), headers={"Retry-After": str(RETRY_SECONDS)}) from None


def _refusal(error: ChildFailed) -> Problem | ForensicsError:
    if error.kind == "NotKnown":
        return Problem(404, "not_known", "no such model is known here")
    if error.kind in _OURS:
        return Problem(503, "identify_failed", error.kind, headers={"Retry-After": str(RETRY_SECONDS)})
    return Problem(422, "fingerprint_refused", str(error))
