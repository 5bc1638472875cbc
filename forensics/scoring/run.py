"""The whole of scoring: a field, a policy and a reading of verdicts in; weights and why out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from . import front as ordered
from .comparing import Difference, Pairwise
from .field import Environment, Field, Submission, counts_of, means_of, shown
from .front import Front
from .judged import Judged, judge
from .policy import Policy
from .spending import Attempt, spend
from .weights import Payment, merits, pay

if TYPE_CHECKING:
    from ..client import Reading

EXPLAINED: Final = 2_000
"""Up to so many models every one is explained in numbers; beyond, those that entered the front."""
SHOWN: Final = 5
"""Earlier wearers of the crown that the wearer's explanation lists."""


class Standing(StrEnum):
    """What became of a submission."""

    CROWN = "crown"
    FRONT = "front"
    DETHRONED = "dethroned"
    HELD = "held"
    OUT = "out"


@dataclass(frozen=True)
class Against:
    """A comparison that decided something.

    Args:
        role: ``held by``, ``dethroned by``, ``took the crown from``, ``no worse than`` or ``short of``.
        other: Place of the other model.
        later: Whether the other one came later.
        differences: The later of both minus the earlier, by environment.
    """

    role: str
    other: int
    later: bool
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Row:
    """One submission's outcome.

    Args:
        place: In commit order.
        submission: Who.
        judged: What verdicts say.
        standing: What became of it.
        attempt: What it could spend; None when it did not compete.
        earned: Weight before multipliers.
        weight: Weight after.
        scores: Mean and number of samples by environment, as the environment counts.
        against: The comparisons that decided.
    """

    place: int
    submission: Submission
    judged: Judged
    standing: Standing
    attempt: Attempt | None
    earned: float
    weight: float
    scores: dict[str, tuple[float, int]]
    against: tuple[Against, ...]


@dataclass(frozen=True)
class Alarm:
    """Something that must not happen silently."""

    code: str
    detail: str


@dataclass(frozen=True)
class Scoring:
    """The result.

    Args:
        policy: Whose rules.
        field: What was scored.
        rows: In commit order.
        crowns: Places of the wearers of the crown, in order.
        burned: Weight that nobody gets.
        alarms: What somebody must look at.
        notes: What a reader should know.
        reading: The verdicts used; None for none.
    """

    policy: Policy
    field: Field
    rows: tuple[Row, ...]
    crowns: tuple[int, ...]
    burned: float
    alarms: tuple[Alarm, ...]
    notes: tuple[str, ...]
    reading: Reading | None


def score(field: Field, policy: Policy, reading: Reading | None = None) -> Scoring:
    """Turn results into weights.

    Args:
        field: Submissions in commit order and what was measured.
        policy: The rules.
        reading: Verdicts; None takes everybody as unknown, multiplier 1.
    """
    judged = judge(field.submissions, reading, policy)
    field = field.excluding(_reasons(field, judged))
    count = len(field.submissions)
    competing = np.array([i for i, s in enumerate(field.submissions) if not s.excluded], dtype=np.intp)
    attempts = dict(zip(competing.tolist(), spend([judged[i].names for i in competing], policy.alpha), strict=True))
    alphas = [attempts[i].alpha if i in attempts else policy.alpha for i in range(count)]
    pairs = Pairwise(field, alphas, worse_alpha=policy.worse_alpha, min_overlap=policy.min_overlap)
    front = ordered.run(pairs, competing, count)
    payment = pay(_ranked(front), merits(field.environments, count), [j.multiplier for j in judged], policy)
    rows = _rows(field, judged, attempts, pairs, front, payment)
    return Scoring(
        policy=policy,
        field=field,
        rows=rows,
        crowns=front.crowns,
        burned=payment.burned,
        alarms=_alarms(rows, payment),
        notes=field.notes + _notes(field, policy, reading),
        reading=reading,
    )


def _reasons(field: Field, judged: Sequence[Judged]) -> dict[int, str]:
    """Who does not compete: whoever verdicts zero, and whoever has no result that counts.

    A model with multiplier 0 must not stand in the way of others: a thief who committed first would hold the author.
    """
    compared = [means_of(environment) for environment in field.environments if not environment.rule.ignore]
    measured = np.any([~np.isnan(mean) for mean in compared], axis=0) if compared else np.zeros(len(judged), dtype=bool)
    reasons = {place: "no scores" for place in np.flatnonzero(~measured).tolist()}
    return reasons | {place: f"verdict {found.why}" for place, found in enumerate(judged) if found.multiplier == 0}


def _ranked(front: Front) -> list[int]:
    """The crown, then the other survivors in commit order."""
    if front.crown is None:
        return []
    return [front.crown, *(int(place) for place in front.survivors if place != front.crown)]


def _rows(
    field: Field,
    judged: Sequence[Judged],
    attempts: dict[int, Attempt],
    pairs: Pairwise,
    front: Front,
    payment: Payment,
) -> tuple[Row, ...]:
    entered = set(front.entered.tolist())
    survivors = set(front.survivors.tolist())
    numbers = [(environment, means_of(environment), counts_of(environment)) for environment in field.environments]
    rows = []
    for place, submission in enumerate(field.submissions):
        standing = _standing(place, submission, front, entered, survivors)
        explained = standing is not Standing.OUT and (len(field.submissions) <= EXPLAINED or place in entered)
        rows.append(
            Row(
                place=place,
                submission=submission,
                judged=judged[place],
                standing=standing,
                attempt=attempts.get(place),
                earned=payment.earned.get(place, 0.0),
                weight=payment.paid.get(place, 0.0),
                scores=_scores(numbers, place),
                against=_against(place, standing, pairs, front) if explained else (),
            )
        )
    return tuple(rows)


def _standing(place: int, submission: Submission, front: Front, entered: set[int], survivors: set[int]) -> Standing:
    if submission.excluded:
        return Standing.OUT
    if place == front.crown:
        return Standing.CROWN
    if place in survivors:
        return Standing.FRONT
    return Standing.DETHRONED if place in entered else Standing.HELD


def _scores(numbers: Sequence[tuple[Environment, np.ndarray, np.ndarray]], place: int) -> dict[str, tuple[float, int]]:
    return {
        environment.name: (shown(environment, float(mean[place])), int(count[place]))
        for environment, mean, count in numbers
        if not np.isnan(mean[place])
    }


def _against(place: int, standing: Standing, pairs: Pairwise, front: Front) -> tuple[Against, ...]:
    if standing is Standing.HELD:
        other = ordered.holder(pairs, front, place)
        return () if other is None else (_compared("held by", place, other, pairs),)
    if standing is Standing.DETHRONED:
        return (_compared("dethroned by", place, int(front.dethroned_by[place]), pairs),)
    if standing is Standing.FRONT and front.crown is not None:
        return (_compared("short of", place, front.crown, pairs),)
    before = front.crowns[: front.crowns.index(place)][-SHOWN:] if place in front.crowns else ()
    roles = ["no worse than"] * (len(before) - 1) + ["took the crown from"]
    return tuple(_compared(role, place, other, pairs) for role, other in zip(roles, before, strict=False))


def _compared(role: str, place: int, other: int, pairs: Pairwise) -> Against:
    later, earlier = max(place, other), min(place, other)
    return Against(role, other, other > place, pairs.details(later, earlier))


def _alarms(rows: Sequence[Row], payment: Payment) -> tuple[Alarm, ...]:
    """Valid scores and nothing to show for them (4-detectors section 5, no. 11)."""
    found = [
        Alarm("no_scores", f"{row.submission.hotkey} has a submission and no result in any compared environment")
        for row in rows
        if row.submission.excluded == "no scores"
    ]
    valid = [row for row in rows if row.standing is not Standing.OUT]
    if valid and payment.burned >= 1:
        found.append(Alarm("nobody_paid", f"{len(valid)} models have valid scores and all weight is burned"))
    if not valid:
        found.append(Alarm("nobody_competes", f"none of {len(rows)} models may compete"))
    return tuple(found)


def _notes(field: Field, policy: Policy, reading: Reading | None) -> tuple[str, ...]:
    ignored = [environment.name for environment in field.environments if environment.rule.ignore]
    known = {environment.name for environment in field.environments}
    notes = [f"not compared, by policy: {', '.join(ignored)}"] if ignored else []
    if strangers := sorted(set(policy.environments) - known):
        notes.append(f"the policy has rules for environments without results: {', '.join(strangers)}")
    if reading is None:
        notes.append("no verdicts: nobody is penalised, and " + _UNJUDGED[policy.unjudged])
    elif reading.snapshot is None:
        notes.append("verdicts are neutral: nobody is penalised, and " + _UNJUDGED[policy.unjudged])
    return tuple(notes)


_UNJUDGED: Final = {
    "together": "as anybody may be a copy of anybody, all models share one alpha",
    "apart": "copies under several hotkeys are not counted together",
}
