"""Fields to score: drawn ones, and tables as people hand them in."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forensics.scoring.field import Environment, Field, Items, Means, Submission
from forensics.scoring.policy import EnvironmentRule, Policy, parse

PLAIN = EnvironmentRule()
TOML = """
name = "test"
version = 7
[pareto]
alpha = {alpha}
worse_alpha = {worse_alpha}
min_overlap = {min_overlap}
unjudged = "{unjudged}"
{environments}
[weights]
rule = "{rule}"
places = {places}
decay = 0.5
temperature = 1.0
[burn]
withheld = "{withheld}"
uid = {burn}
"""


def policy(environments: str = "", **changes: object) -> Policy:
    """A policy that differs from the default in what is named."""
    values: dict[str, object] = {
        "alpha": 0.01,
        "worse_alpha": 0.05,
        "min_overlap": 0.8,
        "unjudged": "together",
        "rule": "winner-takes-all",
        "places": 8,
        "withheld": "burn",
        "burn": 0,
    }
    return parse(TOML.format(**(values | changes), environments=environments), where="test policy")


def submissions(count: int) -> tuple[Submission, ...]:
    """Models in commit order."""
    return tuple(Submission(f"miner-{i:03d}", f"{i:040x}", 100 + i, 0) for i in range(count))


def items(*environments: Sequence[Sequence[float]]) -> Field:
    """A field of (models, items) matrices."""
    made = tuple(Items(f"E{i}", np.array(scores, dtype=float), PLAIN) for i, scores in enumerate(environments))
    return Field(submissions(len(environments[0])), made)


def means(mean: np.ndarray, error: float | np.ndarray) -> Field:
    """A field of (models, environments) means with one standard error."""
    count, width = mean.shape
    errors = np.broadcast_to(np.asarray(error, dtype=float), mean.shape)
    made: tuple[Environment, ...] = tuple(
        Means(f"E{i}", mean[:, i], errors[:, i] ** 2, np.full(count, 100.0), PLAIN) for i in range(width)
    )
    return Field(submissions(count), made)


def bernoulli(
    rng: np.random.Generator, skill: np.ndarray, *, width: int, questions: int, missing: float = 0.0
) -> Field:
    """Models of some skill answer the same questions once; some answers are missing."""
    difficulty = rng.uniform(-0.3, 0.3, size=(width, questions))
    made = []
    for number in range(width):
        chance = np.clip(skill[:, None] + difficulty[number][None, :], 0, 1)
        scores = (rng.random(chance.shape) < chance).astype(float)
        scores[rng.random(chance.shape) < missing] = np.nan
        made.append(Items(f"E{number}", scores, PLAIN))
    return Field(submissions(len(skill)), tuple(made))


HEADER = ("hotkey", "revision", "block", "extrinsic", "environment", "item", "score")


def rows(field: Field) -> list[tuple[object, ...]]:
    """The table's rows of a field of items."""
    return [
        (s.hotkey, s.revision, s.block, s.extrinsic, e.name, f"q{item}", float(e.scores[i, item]))
        for i, s in enumerate(field.submissions)
        for e in field.environments
        if isinstance(e, Items)
        for item in range(e.scores.shape[1])
        if not np.isnan(e.scores[i, item])
    ]


def write(path: Path, table: Sequence[Sequence[object]], header: Sequence[str] = HEADER) -> Path:
    """A CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *table])
    return path
