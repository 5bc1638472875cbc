"""``python -m benchmarks.gauntlet``: train or take families, attack them, print one table, write one JSON."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import torch

from benchmarks.gauntlet import attacks, cache, families, table
from benchmarks.gauntlet.judge import Known, Outcome, attack_outcomes, honest_outcomes
from benchmarks.gauntlet.kit import Kit
from fingerprint.compare import Depth, load_calibration

QUICK_ATTACKS = frozenset(
    {
        "reupload", "reshard-3", "rename-scramble", "cast-f32", "fold", "rotate", "permute-units", "everything",
        "noise-0.001", "noise-0.05", "quantise-int8-row", "prune-0.1", "scale-1.01", "interpolate-0.1",
        "adapter-random-8-0.02", "soup-2-equal", "graft-lower-half", "drop-last", "stack-everything-int8",
        "child-plain", "child-rotate", "stranger-plain",
    }
)  # fmt: skip
"""What CI tries."""

CORE_GROUPS = frozenset({"symmetry", "noise", "stack", "control", "merged", "adapter", "blend"})
"""Groups that depend on whose model the victim is; the second victim gets only these."""

MAIN_VICTIM, SECOND_VICTIM = "ft-a", "rl"
"""A fine-tuned champion, and a reward-driven update whose nearest honest neighbours differ from it by .3%."""

LIGHT_PARENT = "base-s0"
"""Its child in the controls is a reward-driven update: the honest model nearest to a copy, in every disguise."""

MINILM = "minilm"


def plan(name: str, *, quick: bool) -> tuple[tuple[str, frozenset[str]], ...]:
    """Victims of a family, each with the attacks tried on it (empty: all).

    The real MiniLM has 22 M parameters, twenty times the others: it gets the quick set and every stack.
    """
    if quick:
        return ((MAIN_VICTIM, QUICK_ATTACKS),)
    registry = attacks.registry()
    if name == MINILM:
        return ((MAIN_VICTIM, QUICK_ATTACKS | {n for n, a in registry.items() if a.group == "stack"}),)
    core = frozenset(n for i, (n, a) in enumerate(registry.items()) if a.group in CORE_GROUPS and i % 2 == 0)
    controls = frozenset(n for n, a in registry.items() if a.group == "control")
    return ((MAIN_VICTIM, frozenset()), (SECOND_VICTIM, core - controls), (LIGHT_PARENT, controls))


Job = tuple[str, str, bool, tuple[Depth, ...]]


def run_family(job: Job) -> list[Outcome]:
    """All outcomes of one family (in a worker process)."""
    name, split, quick, depths = job
    torch.set_num_threads(1)
    started = time.monotonic()
    known = Known(families.load_family(name, split))  # type: ignore[arg-type]
    outcomes = []
    with ExitStack() as open_:
        kit = Kit.installed()
        if kit is not None:
            open_.enter_context(kit)
        streams = [("honest", honest_outcomes(known, depths, kit))]
        for victim, only in plan(name, quick=quick):
            stream = attack_outcomes(known, depths, victims=(victim,), only=only, kit=kit)
            streams.append((f"attacks on {victim}", stream))
        for kind, stream in streams:
            for outcome in stream:
                outcomes.append(outcome)
                if len(outcomes) % 200 == 0:
                    _say(f"{name}: {len(outcomes)} comparisons, {kind}, {time.monotonic() - started:.0f} s")
    _say(f"{name}: done, {len(outcomes)} comparisons in {time.monotonic() - started:.0f} s")
    kept = cache.root() / f"outcomes-{split}-{name}.json"
    kept.write_text(json.dumps([o.as_json() for o in outcomes], default=str), encoding="utf-8")
    return outcomes


def main() -> int:
    """Run the gauntlet."""
    options = _options()
    split = "quick" if options.quick else options.split
    names = tuple(options.family or families.names(split))
    families.build(names, split, _say)
    depths = tuple(Depth(d) for d in options.depth or ("full", "sketch"))
    jobs: list[Job] = [(n, split, options.quick, depths) for n in names]
    started = time.monotonic()
    if options.processes > 1:
        with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
            results = pool.map(run_family, jobs, chunksize=1)
    else:
        results = [run_family(job) for job in jobs]
    outcomes = [o for result in results for o in result]
    summary = table.summarise(outcomes)
    sys.stdout.write(table.render(outcomes, summary))
    target = Path(options.out or cache.root() / f"gauntlet-{split}.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "split": split,
        "calibration": load_calibration().digest,
        "seconds": time.monotonic() - started,
        "summary": summary,
        "outcomes": [o.as_json() for o in outcomes],
    }
    target.write_text(json.dumps(document, default=str), encoding="utf-8")
    _say(f"wrote {target}")
    return table.verdict(summary, quick=options.quick)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gauntlet", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small families, fewer attacks: three minutes")
    parser.add_argument("--split", choices=families.SPLITS, default="test")
    parser.add_argument("--family", action="append", help="only this family (may be repeated)")
    parser.add_argument("--depth", choices=[d.value for d in Depth], action="append", help="only this depth")
    parser.add_argument("--out", help="where the JSON goes")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
