"""Commitments that name nothing, or break a rule of the competition, in a way that anybody can check on chain.

Which rules a competition has, and whether a commitment keeps them, is read from the chain (`forensics.chain.claims`);
here it becomes a finding. Whether a broken rule costs anything is the policy's to say: where it does not, the
submission is unknown.
"""

from __future__ import annotations

import re
from typing import Final

from .evidence import Document, Exculpation, Finding, Kind, Party, digest_of

DETECTOR: Final = "commit@1"
UNNAMED: Final = "invalid"
_CERTAIN: Final = 1e-300
_WORD: Final = re.compile(r"[a-z][a-z0-9_]*")


def broken(entry: Document, *, why: str) -> tuple[Finding, Document]:
    """A commitment that was refused; the finding and its evidence.

    Args:
        entry: The submission: ``hotkey``, ``revision``, ``block``, ``extrinsic`` and whatever else identifies it.
        why: The rule as one word, then details after a colon: ``multiple_commits:count=2``.

    Returns:
        ``commit.RULE``, and what its evidence digest stands for.
    """
    word = why.partition(":")[0].strip()
    rule = word if _WORD.fullmatch(word) else UNNAMED
    revision = str(entry.get("revision") or "")
    evidence = {"schema": "commit/evidence/v1", "why": why, **entry}
    finding = Finding(
        detector=DETECTOR,
        code=f"commit.{rule}",
        subject=Party(Kind.SUBMISSION, f"{entry['hotkey']}@{revision}" if revision else str(entry["hotkey"])),
        object=None,
        log10_likelihood_ratio=0.0,
        p_value=_CERTAIN,
        null="read/commitment",
        evidence=digest_of(evidence),
        measured={"proof": "commitment", "why": why, "confidence": 1.0},
        exculpatory=(Exculpation("may_be_a_mistake", "a commitment that breaks a rule gains its owner nothing"),),
    )
    return finding, evidence
