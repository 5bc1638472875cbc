"""The commands a validator would type, run in this process so that torch is imported once.

Only the stable contract is used: arguments in, exit code and one JSON document out. What works here works in a shell.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from forensics.errors import Exit, Unavailable


@dataclass(frozen=True)
class Answer:
    """What ``identify`` said about a commitment.

    Attributes:
        relation: The relation to the nearest known work.
        copy: Whether that is of the copy class.
        of: Labels of the known models it is made of, heaviest first, with their weights.
        since: Block of the first of them, if it has one.
        transforms: What was undone or found.
        confidence: Confidence in the relation.
        false_accusation: Probability that an honest model looks this copy-like.
        why: One sentence.
        seconds: Wall-clock time, fingerprint included.
    """

    relation: str
    copy: bool
    of: tuple[tuple[str, float], ...]
    since: int | None
    transforms: tuple[str, ...]
    confidence: float
    false_accusation: float
    why: str
    seconds: float


@dataclass
class Registry:
    """A registry of known models under one home."""

    home: Path
    labels: dict[str, tuple[str, int | None]] = field(default_factory=dict)
    """Content root to label and block, of what was added."""

    def add(self, path: Path, *, label: str, hotkey: str | None, block: int | None) -> None:
        """``forensics known add``: as a base when nobody's, else as somebody's submission."""
        owner = ["--role", "base"] if hotkey is None else ["--role", "submission", "--hotkey", hotkey]
        at = [] if block is None else ["--block", str(block)]
        document = self._run("known", "add", str(path), *owner, *at, "--label", label)
        self.labels.setdefault(document["content_root"], (label, block))

    def identify(self, path: Path, *, hotkey: str, block: int) -> Answer:
        """``forensics identify``: the nearest known work, verified, in the name of whoever committed it."""
        began = perf_counter()
        document = self._run("identify", str(path), "--hotkey", hotkey, "--block", str(block))
        return self._answer(document, perf_counter() - began)

    def _run(self, *arguments: str) -> Mapping[str, Any]:
        from forensics.cli.main import main

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = main(["--home", str(self.home), *arguments, "--json"])
        if code not in (Exit.CLEAN, Exit.FINDING):
            raise Unavailable(
                "a command of the demo failed", where=f"forensics {' '.join(arguments)}", got=out.getvalue()
            )
        document: Mapping[str, Any] = json.loads(out.getvalue())
        return document

    def _answer(self, document: Mapping[str, Any], seconds: float) -> Answer:
        parents = sorted(document["parents"], key=lambda parent: -float(parent["weight"]))
        known = [(self.labels[parent["digest"]], float(parent["weight"])) for parent in parents]
        return Answer(
            relation=document["relation"],
            copy=document["copy"],
            of=tuple((label, weight) for (label, _), weight in known),
            since=known[0][0][1] if known else None,
            transforms=tuple(document["transforms"]),
            confidence=document["confidence"],
            false_accusation=document["false_accusation_probability"],
            why=document["why"],
            seconds=seconds,
        )
