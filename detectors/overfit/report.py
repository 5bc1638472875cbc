"""What an overfit analysis says: of every miner, of every validator that has tracers, and as findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..evidence import Document, Finding
from .tracer import Traced

DETECTOR: Final = "overfit@1"
INTERVAL: Final = 0.95
"""Two-sided coverage of intervals."""


class Exposure(StrEnum):
    """How items came to be exposed."""

    RANDOMISED = "randomised"
    CALENDAR = "calendar"


class Status(StrEnum):
    """What is said of a miner."""

    FLAGGED = "flagged"
    CLEAR = "clear"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class FreshScore:
    """A miner's score on fresh items of one environment, which scoring can use instead of the whole.

    Args:
        environment: Its name.
        score: Mean.
        error: Standard error.
        items: Number of items.
    """

    environment: str
    score: float
    error: float
    items: int


@dataclass(frozen=True)
class MinerReport:
    """What is said of one miner.

    Args:
        hotkey: The miner.
        unit: Its cluster, or itself.
        status: The answer.
        lift: Estimated gain on exposed items, weighted over environments; None where it cannot be estimated.
        interval: Of lift, two-sided at ``INTERVAL``.
        p: One-sided p-value; after several epochs 1 / the e-value, at most 1.
        q: The p-value after correction over units (Benjamini-Hochberg); None after several epochs.
        log_e: Natural log of the e-value.
        alarm: First epoch at which the e-value passed 1 / level, if any.
        null: The null that was used.
        environments: Lift by environment, where it can be estimated: (lift, standard error, p).
        fresh: Score on fresh items by environment.
        reason: Why it is inconclusive, else empty.
    """

    hotkey: str
    unit: str
    status: Status
    lift: float | None
    interval: tuple[float, float] | None
    p: float | None
    q: float | None
    log_e: float
    alarm: int | None
    null: str
    environments: Mapping[str, tuple[float, float, float]]
    fresh: tuple[FreshScore, ...]
    reason: str = ""

    @property
    def fresh_score(self) -> float | None:
        """Mean over environments of the score on fresh items; None where there are none."""
        return sum(f.score for f in self.fresh) / len(self.fresh) if self.fresh else None


@dataclass(frozen=True)
class Report:
    """A whole analysis.

    Args:
        results: Digest of the rows it rests on.
        exposure: How items were exposed.
        level: False discovery rate among flagged units, and chance of naming any honest validator.
        sequential: Whether e-values over several epochs decided, rather than p-values of one look.
        epochs: Epochs that were judged.
        miners: By hotkey.
        validators: Those with tracers.
        findings: Of flagged miners and named validators.
        evidence: Evidence documents by digest.
    """

    results: str
    exposure: Exposure
    level: float
    sequential: bool
    epochs: tuple[int, ...]
    miners: tuple[MinerReport, ...]
    validators: tuple[Traced, ...]
    findings: tuple[Finding, ...]
    evidence: Mapping[str, Document]

    @property
    def flagged(self) -> tuple[MinerReport, ...]:
        """Miners that trained on exposed items, by what is shown here."""
        return tuple(m for m in self.miners if m.status is Status.FLAGGED)

    @property
    def leaking(self) -> tuple[Traced, ...]:
        """Validators that leaked."""
        return tuple(v for v in self.validators if v.named)
