"""A task, what a check says of an answer, and what a generator is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any, Final, Protocol

from attest.seeds.draw import Draw

LEVELS: Final = (1, 2, 3, 4, 5)


class Verdict(Enum):
    """What a check says."""

    RIGHT = "right"
    WRONG = "wrong"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Task:
    """One task.

    Args:
        environment: Which kind.
        level: Difficulty, 1 to 5.
        prompt: What the model is asked.
        facts: What the check needs: integers, texts and lists of them. Not for the model: a hidden rule is among them.
        solution: One right answer, as a model would write it; others may be right too.
    """

    environment: str
    level: int
    prompt: str
    facts: Mapping[str, Any]
    solution: str

    def document(self) -> dict[str, Any]:
        """As JSON, the solution included: never shown to a model."""
        return {
            "environment": self.environment,
            "level": self.level,
            "prompt": self.prompt,
            "facts": dict(self.facts),
            "solution": self.solution,
        }

    def digest(self) -> str:
        """SHA-256 of the task's JSON: keys in order, no spaces, ASCII."""
        text = json.dumps(self.document(), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        return sha256(text.encode()).hexdigest()


class Generator(Protocol):
    """One environment."""

    name: str

    def make(self, draw: Draw, level: int) -> Task:
        """The task that this stream of choices gives."""
        ...

    def check(self, task: Task, answer: str) -> Verdict:
        """What a model's whole answer is worth; never raises for anything a model can write."""
        ...
