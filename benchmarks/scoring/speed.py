"""The ordered front of 10,000 models beside moocore's own filter of the same matrix, alternately, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from forensics.scoring import front
from forensics.scoring.comparing import Pairwise
from forensics.scoring.field import Field, Items, Means, Submission
from forensics.scoring.policy import EnvironmentRule

MODELS, ENVIRONMENTS = 10_000, 12
ITEMS = (100, 300, 1000)
REPEATS = 7
ALPHA = 0.01 / 506
"""Of the 22nd attempt of a lineage."""
PLAIN = EnvironmentRule()


def matrices(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Scores as subnets have them (models differ in one ability more than in anything else), and the worst case."""
    ability, own = rng.normal(size=(MODELS, 1)), rng.normal(size=(MODELS, ENVIRONMENTS))
    return {
        "ability": np.clip(0.5 + 0.15 * (ability + 0.5 * own), 0, 1),
        "uniform": rng.random((MODELS, ENVIRONMENTS)),
    }


def rows(seed: int) -> Iterator[dict[str, Any]]:
    """Time of both, and their ratio."""
    import moocore

    for name, matrix in matrices(np.random.default_rng(seed)).items():
        for items in ITEMS:
            field = _field(matrix, items)
            theirs, mine = _alternately(
                lambda matrix=matrix: moocore.is_nondominated(matrix, maximise=True, keep_weakly=True),
                lambda field=field: _play(field),
            )
            yield {
                "part": "speed",
                "matrix": name,
                "items": items,
                "entered": len(_play(field).entered),
                "moocore_ms": round(theirs * 1e3, 2),
                "ours_ms": round(mine * 1e3, 2),
                "ratio": round(mine / theirs, 2),
            }


def subnet(seed: int) -> dict[str, Any]:
    """A real size, item by item: 256 models, 6 environments, 1,000 items each, a tenth of the answers missing."""
    rng = np.random.default_rng(seed)
    skill = np.sort(rng.uniform(0.3, 0.7, size=(256, 1)), axis=0)
    made = []
    for number in range(6):
        scores = (rng.random((256, 1000)) < skill).astype(float)
        scores[rng.random(scores.shape) < 0.1] = np.nan
        made.append(Items(f"E{number}", scores, PLAIN))
    field = Field(_submissions(256), tuple(made))
    began = time.process_time()
    entered = len(_play(field).entered)
    return {
        "part": "subnet",
        "models": 256,
        "entered": entered,
        "ours_ms": round(1e3 * (time.process_time() - began), 1),
    }


def _play(field: Field) -> front.Front:
    count = len(field.submissions)
    pairs = Pairwise(field, [ALPHA] * count, worse_alpha=0.05, min_overlap=0.5)
    return front.run(pairs, np.arange(count), count)


def _field(matrix: np.ndarray, items: int) -> Field:
    variance = np.full(MODELS, 0.25 / items)
    made = tuple(
        Means(f"E{i}", np.ascontiguousarray(matrix[:, i]), variance, np.full(MODELS, float(items)), PLAIN)
        for i in range(ENVIRONMENTS)
    )
    return Field(_submissions(MODELS), made)


def _submissions(count: int) -> tuple[Submission, ...]:
    return tuple(Submission(f"miner-{i:05d}", f"{i:040x}", i, 0) for i in range(count))


def _alternately(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """Smallest CPU time of each, taken in turns so that a busy machine disturbs both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS):
        for call, taken in zip((one, other), times, strict=True):
            began = time.process_time()
            call()
            taken.append(time.process_time() - began)
    return min(times[0]), min(times[1])
