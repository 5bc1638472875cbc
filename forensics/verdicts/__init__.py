"""Verdicts: what the policy makes of the findings about one submission, stored so that it can be made again."""

from __future__ import annotations

from .judge import judge
from .store import Verdicts
from .subject import Decision, Subject
from .verdict import Verdict

__all__ = ["Decision", "Subject", "Verdict", "Verdicts", "judge"]
