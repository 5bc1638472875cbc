"""Commitments that break the competition's rules in a way that anybody can check on chain.

The only rule so far: a commitment must name a repository and a commit of it. Whether breaking a rule costs anything is
the policy's to say; a rule that it does not turn on leaves the submission unknown.
"""

from __future__ import annotations

from typing import Final

from .evidence import Document, Exculpation, Finding, Kind, Party, digest_of

DETECTOR: Final = "commit@1"
_CERTAIN: Final = 1e-300


def invalid(entry: Document, *, why: str) -> tuple[Finding, Document]:
    """A commitment that names nothing that could be fetched; the finding and its evidence.

    Args:
        entry: The submission: ``hotkey``, ``revision``, ``block``, ``extrinsic`` and whatever else identifies it.
        why: What it lacks, in words.
    """
    evidence = {"schema": "commit/evidence/v1", "why": why, **entry}
    finding = Finding(
        detector=DETECTOR,
        code="commit.invalid",
        subject=Party(Kind.SUBMISSION, str(entry["hotkey"])),
        object=None,
        log10_likelihood_ratio=0.0,
        p_value=_CERTAIN,
        null="read/commitment",
        evidence=digest_of(evidence),
        measured={"proof": "commitment", "why": why, "confidence": "1.0"},
        exculpatory=(Exculpation("may_be_a_mistake", "a commitment that names nothing gains its owner nothing"),),
    )
    return finding, evidence
