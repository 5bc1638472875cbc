"""``python -m benchmarks.scoring``: luck of copies, power of improvements, speed; one table, one JSON."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

from forensics.scoring.field import Field, Items, Submission
from forensics.scoring.policy import EnvironmentRule

from . import speed
from .rules import Rule, enters, naive, one_sided, ours

ALPHAS = (0.05, 0.01)
QUESTIONS = 200
COPIES = ((6, 22), (6, 1), (2, 22), (2, 1))
KINDS = ("pass or fail", "graded", "heavy tail")
LIFTS = ((0.05, 300), (0.1, 300), (0.1, 1000), (0.2, 300))
RULES: dict[str, Rule] = {
    "naive": naive,
    "one-sided margin": one_sided,
    **{f"per hotkey @{alpha:g}": ours(alpha, together=False) for alpha in ALPHAS},
    **{f"ours @{alpha:g}": ours(alpha, together=True) for alpha in ALPHAS},
    **{f"ours, enters @{alpha:g}": enters(alpha) for alpha in ALPHAS},
}


def field(rng: np.random.Generator, kind: str, skills: Sequence[float], environments: int, questions: int) -> Field:
    """Models answer the same questions once, each with samples of its own."""
    made = []
    for number in range(environments):
        chance = np.clip(np.array(skills)[:, None] + rng.uniform(-0.3, 0.3, size=questions)[None, :], 0.02, 0.98)
        made.append(Items(f"E{number}", _scores(rng, kind, chance), EnvironmentRule()))
    return Field(tuple(Submission(f"m{i:02d}", f"{i:040x}", i, 0) for i in range(len(skills))), tuple(made))


def _scores(rng: np.random.Generator, kind: str, chance: np.ndarray) -> np.ndarray:
    if kind == "graded":
        return rng.beta(4 * chance, 4 * (1 - chance))
    if kind == "heavy tail":
        return chance * rng.lognormal(sigma=1.5, size=chance.shape)
    return (rng.random(chance.shape) < chance).astype(float)


def luck(kind: str, environments: int, copies: int, runs: int, seed: int) -> dict[str, Any]:
    """How often a champion of skill .5 loses the crown to copies of itself, under each rule."""
    fallen = dict.fromkeys(RULES, 0)
    for run in range(runs):
        drawn = field(np.random.default_rng([seed, run]), kind, [0.5] * (copies + 1), environments, QUESTIONS)
        for name, rule in RULES.items():
            fallen[name] += rule(drawn)
    return {name: {"rate": count / runs, "upper95": _upper(count, runs)} for name, count in fallen.items()}


def power(lift: float, questions: int, everywhere: bool, runs: int, seed: int) -> dict[str, float]:
    """How often an honest improvement takes the crown, as first and as 22nd attempt of its lineage (alpha .01)."""
    won = {"first attempt": 0, "22nd attempt": 0}
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        drawn = field(rng, "pass or fail", [0.5, 0.5 + lift], 6, questions)
        if not everywhere:
            same = field(rng, "pass or fail", [0.5, 0.5], 6, questions)
            drawn = Field(drawn.submissions, (drawn.environments[0], *same.environments[1:]))
        won["first attempt"] += ours(0.01, together=True)(drawn)
        won["22nd attempt"] += ours(0.01 * 2 / 506, together=True)(drawn)  # alpha / (22 * 23), for rule halves it
    return {name: count / runs for name, count in won.items()}


def rows(runs: int, parts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """All measurements, each as it is made."""
    if "luck" in parts:
        for kind in KINDS:
            for environments, copies in COPIES:
                measured = luck(kind, environments, copies, runs, seed=1)
                yield {"part": "luck", "kind": kind, "environments": environments, "copies": copies, **measured}
    if "power" in parts:
        for lift, questions in LIFTS:
            for everywhere in (True, False):
                measured = power(lift, questions, everywhere, max(1, runs // 4), seed=2)
                yield {"part": "power", "lift": lift, "items": questions, "everywhere": everywhere, **measured}
    if "speed" in parts:
        yield from speed.rows(seed=3)
        yield speed.subnet(seed=4)


def show(row: dict[str, Any]) -> None:
    """One measurement as a line."""
    if row["part"] == "luck":
        print(f"luck   {row['kind']:<13} {row['environments']} environments {row['copies']:>2} copies", flush=True)
        for name in RULES:
            print(f"         {name:<22} {row[name]['rate']:7.4f}  (95% below {row[name]['upper95']:.4f})", flush=True)
        return
    print("  ".join(f"{name} {value}" for name, value in row.items()), flush=True)


def _upper(count: int, runs: int) -> float:
    """Upper end of the one-sided 95% interval of Clopper and Pearson."""
    return 1.0 if count == runs else float(beta.ppf(0.95, count + 1, runs - count))


def main() -> None:
    """Parse the command line, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--parts", nargs="+", choices=("luck", "power", "speed"), default=["luck", "power", "speed"])
    parser.add_argument("--out", type=Path, help="where the JSON goes")
    options = parser.parse_args()
    began, made = time.perf_counter(), []
    for row in rows(options.runs, options.parts):
        show(row)
        made.append(row)
        if options.out:
            seconds = round(time.perf_counter() - began, 1)
            document = {"machine": platform.platform(), "runs": options.runs, "seconds": seconds, "rows": made}
            options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
