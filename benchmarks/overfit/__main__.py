"""``python -m benchmarks.overfit``: power and false alarms against lift and number of items; one table, one JSON.

Three parts: miners (calibrated and exact test, and the naive gap test beside them), drift without any cheat, and
leaking validators. Every field is judged by the code that ``forensics overfit`` runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from detectors.multiplicity import benjamini_hochberg
from detectors.overfit.arms import arms_of
from detectors.overfit.judge import decide, field_of
from detectors.overfit.report import Exposure
from detectors.overfit.tracer import Traced, trace

from .world import World, field

LEVELS = (0.01, 0.05)
LIFTS = (0.1, 0.2, 0.05)
ITEMS = (1000, 300, 100)
DRIFT = 1.0
"""Logits by which fresh items are harder in the table of power: a miner at .5 falls to .27."""
DRIFTS = ((-1.0, 0.0), (0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (1.0, 0.1), (1.0, 0.2))
"""Drift without any cheat, and how much miners differ in it."""
VALIDATORS = 8
LEAKS = (
    (0.1, 60, True),
    (0.0, 60, True),
    (0.1, 40, True),
    (0.2, 20, True),
    (0.2, 40, True),
    (0.3, 20, True),
    (0.1, 60, False),
    (0.2, 40, False),
)
"""Lift, tracers of each validator, and whether flagged miners are suspects; at lift 0 nobody leaks."""


def miners(world: World, exposure: Exposure, runs: int, seed: int) -> dict[str, Any]:
    """Power, false discoveries and false accusations of one kind of field."""
    found: dict[str, list[tuple[int, int]]] = {}
    for run in range(runs):
        results, cheats = field(world, np.random.default_rng([seed, run]))
        arms = arms_of(results)
        judged = field_of(results, arms, exposure, np.random.default_rng([seed, run, 1]))
        look = judged.look()
        for level in LEVELS:
            named = decide(results, look, None, level=level, sequential=False).named
            found.setdefault(f"{exposure.value}@{level:g}", []).append(_count(named, cheats))
        variance = (arms.raw / arms.count).sum(axis=0)[:, 0]
        p = stats.norm.sf(arms.gap[:, 0] / np.sqrt(variance))
        found.setdefault("naive@0.05", []).append(_count(p <= 0.05, cheats))
        found.setdefault("naive+BH@0.05", []).append(_count(benjamini_hochberg(p) <= 0.05, cheats))
    return {name: _rates(counts, world) for name, counts in found.items()}


def _count(named: np.ndarray, cheats: np.ndarray) -> tuple[int, int]:
    return int((named & cheats).sum()), int((named & ~cheats).sum())


def _rates(counts: Sequence[tuple[int, int]], world: World) -> dict[str, float | None]:
    right, wrong = np.array(counts).T
    honest = world.miners - world.cheats
    return {
        "power": float(right.mean() / world.cheats) if world.cheats else None,
        "fdr": float(np.mean(wrong / np.maximum(right + wrong, 1))),
        "honest_flagged": float(wrong.mean() / honest),
        "runs_with_a_false_flag": float(np.mean(wrong > 0)),
    }


def leaks(world: World, runs: int, seed: int, *, suspected: bool) -> dict[str, float]:
    """How often the leaking validator is named, and any honest one, with flagged miners as suspects or without."""
    tally = {f"{kind}@{level:g}": 0 for level in LEVELS for kind in ("leaker_named", "honest_named")}
    tally |= {"told_named": 0, "told_named_wrongly": 0}
    for run in range(runs):
        results, cheats = field(world, np.random.default_rng([seed, run]))
        traced: dict[frozenset[int], tuple[Traced, ...]] = {}
        suspects = {level: frozenset[int]() for level in LEVELS}
        if suspected:
            look = field_of(results, arms_of(results), Exposure.RANDOMISED, np.random.default_rng(0)).look()
            for level in LEVELS:
                named = decide(results, look, None, level=level, sequential=False).named
                suspects[level] = frozenset(int(u) for u in results.units[named])
        for level in LEVELS:
            chosen = suspects[level]
            if chosen not in traced:  # what is named at a lower level follows from the adjusted p-values
                rng = np.random.default_rng([seed, run, 2])
                traced[chosen] = trace(results, suspects=chosen, level=max(LEVELS), rng=rng)
            leaked = [t.named and t.adjusted <= level for t in traced[chosen]]
            tally[f"leaker_named@{level:g}"] += leaked[0]
            tally[f"honest_named@{level:g}"] += any(leaked[1:])
        told = {t.hotkey for t in traced[suspects[max(LEVELS)]][0].told if t.named}
        tally["told_named"] += len(told)
        tally["told_named_wrongly"] += len(told - {h for h, c in zip(results.hotkeys, cheats, strict=True) if c})
    return {name: count / runs for name, count in tally.items()}


def rows(runs: int, parts: Sequence[str]) -> Iterator[dict[str, Any]]:
    """All measurements, each as it is made; what was promised comes first."""
    if "power" in parts:
        for items, lift in itertools.product(ITEMS, LIFTS):
            for exposure, drift in ((Exposure.CALENDAR, DRIFT), (Exposure.RANDOMISED, 0.0)):
                world = World(lift=lift, items=items, drift=drift)
                yield _row("power", world, miners(world, exposure, runs, seed=1))
    if "drift" in parts:
        for drift, drift_sd in DRIFTS:
            world = World(lift=0.0, items=300, drift=drift, drift_sd=drift_sd)
            yield _row("drift", world, miners(world, Exposure.CALENDAR, runs, seed=2))
    if "leaks" in parts:
        for lift, tracers, suspected in LEAKS:
            world = World(lift=lift, items=1000, validators=VALIDATORS, tracers=tracers)
            part = "leaks" if suspected else "blind"
            yield _row(part, world, leaks(world, runs, seed=3, suspected=suspected))


def _row(part: str, world: World, measured: dict[str, Any]) -> dict[str, Any]:
    return {"part": part, **vars(world), "measured": measured}


def show(row: dict[str, Any]) -> None:
    """One measurement as a line for each test."""
    head = f"{row['part']:<6} lift {row['lift']:<5g} n {row['items']:<5} drift {row['drift']:g}±{row['drift_sd']:<4g}"
    if row["part"] in ("leaks", "blind"):
        words = "  ".join(f"{name} {value:.3f}" for name, value in row["measured"].items())
        print(f"{head} tracers {row['tracers']:<3} {words}", flush=True)
        return
    for name, rates in row["measured"].items():
        power = "    -" if rates["power"] is None else f"{rates['power']:5.3f}"
        print(
            f"{head} {name:<16} power {power}  FDR {rates['fdr']:.4f}  honest flagged {rates['honest_flagged']:.5f}"
            f"  runs with one {rates['runs_with_a_false_flag']:.3f}",
            flush=True,
        )


def main() -> None:
    """Parse the command line, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--parts", nargs="+", choices=("power", "drift", "leaks"), default=["power", "drift", "leaks"])
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
