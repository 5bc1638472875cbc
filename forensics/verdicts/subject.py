"""What the judge is told besides findings: whom it judges, what is not known about them, what people decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attest.predicates.decision import Outcome


@dataclass(frozen=True)
class Subject:
    """A submission as the judge sees it; nothing in it changes with time, but what was found out.

    Args:
        entry: Public id of the entry.
        genesis: Chain.
        netuid: Subnet.
        hotkey: Who committed it.
        revision: Commit, 40 hex digits; empty when the commitment names none.
        block: Block of the commitment.
        extrinsic: Index in that block.
        content_root: Its content, once known.
        examined: Detectors that have looked at it (``copy@1``), also those that found nothing.
        unknown: Why its content could not be looked at, as one word; None when nothing is in the way.
        cluster: Cluster it belongs to, if any.
    """

    entry: str
    genesis: str
    netuid: int
    hotkey: str
    revision: str
    block: int
    extrinsic: int
    content_root: str | None = None
    examined: tuple[str, ...] = ()
    unknown: str | None = None
    cluster: str | None = None

    def document(self) -> dict[str, Any]:
        """As JSON: part of what a verdict's inputs are."""
        return {
            "entry": self.entry,
            "genesis": self.genesis,
            "netuid": self.netuid,
            "hotkey": self.hotkey,
            "revision": self.revision,
            "block": self.block,
            "extrinsic": self.extrinsic,
            "content_root": self.content_root,
            "examined": sorted(self.examined),
            "unknown": self.unknown,
            "cluster": self.cluster,
        }

    @property
    def seen(self) -> bool:
        """Whether its content was compared; then it stays seen, though its repository may vanish."""
        return any(detector.startswith("copy@") for detector in self.examined)


@dataclass(frozen=True)
class Decision:
    """What people decided about a submission; made by governance, obeyed by the judge.

    Args:
        digest: Of the signed statement.
        case: The case it was taken in.
        outcome: ``upheld`` leaves the verdict, ``amended`` sets the multiplier, the others clear findings.
        multiplier: With ``amended``, decimal text.
        permanent: Whether it is to last.
        evidence: Digests of the evidence it speaks of; all there was, when empty.
    """

    digest: str
    case: str
    outcome: Outcome
    multiplier: str | None = None
    permanent: bool = False
    evidence: tuple[str, ...] = ()

    @property
    def clears(self) -> bool:
        """Whether findings are set aside."""
        return self.outcome in (Outcome.OVERTURNED, Outcome.DISMISSED)
