"""What a comparison with the known models means: findings, and the verdict that follows from them."""

from __future__ import annotations

from typing import Any

from detectors.evidence import Finding

from ..entries.claimed import Entry
from ..verdicts.store import Verdicts


class Bench:
    """Findings and verdicts of the copy detector.

    Args:
        verdicts: Where they are recorded.
    """

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts

    def detect(self, entry: Entry, identified: dict[str, Any]) -> None:
        """Record what was found where the comparison was made (``lab``); repeated, the same."""
        found = [Finding.read(document) for document in identified["findings"]]
        self._verdicts.record_findings(entry.id, found)

    def judge(self, entry: Entry) -> None:
        """Record a verdict; where nothing is new, the one on record stands."""
        self._verdicts.judge(entry.id)
