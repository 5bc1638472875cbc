"""What is made of an identification: findings, and then a verdict. The pipeline's two last steps of judgement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..entries.claimed import Entry
from .identified import Examiner, Submitted
from .store import Verdicts


class Court:
    """Findings and verdicts of entries; every step may be repeated.

    Args:
        verdicts: Where both are kept.
        examiner: Makes findings of identifications.
    """

    def __init__(self, verdicts: Verdicts, examiner: Examiner) -> None:
        self._verdicts, self._examiner = verdicts, examiner

    def detect(self, entry: Entry, identified: Mapping[str, Any]) -> None:
        """Record the findings that follow from an identification.

        Args:
            entry: Its content is known.
            identified: See ``Examiner.findings``.
        """
        claimed = entry.claimed
        root = entry.content_root or str(identified["content_root"])
        submitted = Submitted(claimed.hotkey, claimed.revision, claimed.block, claimed.extrinsic, root)
        self._verdicts.record_findings(entry.id, self._examiner.findings(submitted, identified))

    def judge(self, entry: Entry) -> None:
        """Record the verdict; nothing where nothing is new."""
        self._verdicts.judge(entry.id)
