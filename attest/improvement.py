"""Improvement: a confirmed child that beats its parent on hidden seeds.

A validator scores parent and child on the same hidden items. Pairs that tie say nothing; of the others, under the
null that the child is no better, at most half are wins. The one-sided exact sign test needs no assumption on the
scores (Dixon and Mood 1946) and is computed in integers, so that everybody gets the same digits. The record is what
the service keeps; the scores themselves come with the epoch's results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from attest.errors import MalformedInput
from attest.lineage import Judgement
from attest.predicates.fields import Count, Digest, Digests
from attest.record import Record

MAX_PAIRS: Final = 20_000
"""Most pairs tested exactly; an epoch's evaluation has thousands."""


@dataclass(frozen=True)
class PairedScores(Record):
    """Parent against child on the same hidden items.

    Args:
        parent: Content root of the parent.
        child: Content root of the child.
        reveals: Digests of the seed-reveal statements of the epochs whose items were used.
        wins: Items on which the child scored strictly higher.
        losses: Items on which the parent did.
        ties: Items on which both scored the same.
    """

    parent: Digest
    child: Digest
    reveals: Digests
    wins: Count
    losses: Count
    ties: Count

    def agree(self) -> None:
        """Two models, hidden seeds, and few enough pairs to test exactly."""
        if self.parent == self.child:
            raise MalformedInput("a model is compared with itself", where="PairedScores.child")
        if not self.reveals:
            raise MalformedInput("no hidden seeds are named", where="PairedScores.reveals", expected="at least one")
        if self.wins + self.losses > MAX_PAIRS:
            raise MalformedInput(
                "too many pairs", where="PairedScores", got=self.wins + self.losses, expected=MAX_PAIRS
            )


def pair(
    parent: str, child: str, reveals: tuple[str, ...], scores: Sequence[tuple[Fraction | int, Fraction | int]]
) -> PairedScores:
    """Count (parent score, child score) pairs; scores are exact numbers, one pair for each hidden item."""
    wins = sum(after > before for before, after in scores)
    losses = sum(after < before for before, after in scores)
    return PairedScores(
        parent=parent, child=child, reveals=reveals, wins=wins, losses=losses, ties=len(scores) - wins - losses
    )


def sign_test(wins: int, losses: int) -> Fraction:
    """P(at least ``wins`` of ``wins + losses`` fair coins), exactly; 1 when every pair tied."""
    pairs = wins + losses
    term = total = 1  # C(pairs, 0): as many losses or fewer is as many wins or more
    for k in range(1, losses + 1):
        term = term * (pairs - k + 1) // k
        total += term
    return Fraction(total, 1 << pairs)


def judge_improvement(lineage: Judgement, scores: PairedScores, *, level: Fraction) -> Judgement:
    """Whether the child improved on its parent.

    Args:
        lineage: What measuring said about the descent.
        scores: Paired scores of these two models.
        level: The policy's largest accepted chance of calling no improvement one, in (0, 1/2].

    Returns:
        ``CONTRADICTED`` with the lineage, or when the parent is the better one at the same level; ``CONFIRMED`` when
        descent is confirmed and the child is better; else ``UNVERIFIABLE``.
    """
    if not 0 < level <= Fraction(1, 2):
        raise MalformedInput("no such level", where="improvement", got=level, expected="(0, 1/2]")
    worse = sign_test(scores.losses, scores.wins) <= level
    if lineage is Judgement.CONTRADICTED or worse:
        return Judgement.CONTRADICTED
    better = sign_test(scores.wins, scores.losses) <= level
    return Judgement.CONFIRMED if better and lineage is Judgement.CONFIRMED else Judgement.UNVERIFIABLE
