"""``python -m benchmarks.gauntlet.calibrate``: measure the tails that decisions are calibrated on.

Only families of the ``calibration`` split are used: other shapes, seeds, vocabularies and data draws than any pair
the gauntlet tests. For every channel the tail is that of *light* honest changes (reward-driven and preference updates,
light fine-tunes and adapters), so that the easy ones cannot thin it out.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.gauntlet import attacks, cache, families
from benchmarks.gauntlet.honest import pairs
from benchmarks.gauntlet.judge import HARD_KINDS, Known, pair_kind
from benchmarks.gauntlet.scenes import LIGHT_CHILDREN, stages
from fingerprint.architecture import recognise
from fingerprint.checkpoint import open_checkpoint
from fingerprint.compare import Calibration, Depth, Source, load_calibration
from fingerprint.compare.calibration import Tail
from fingerprint.compare.compare import gather
from fingerprint.compare.evidence import Evidence
from fingerprint.compare.gridded import UNSETTLED
from fingerprint.compare.learning import CHANCE, channel_score, telling, total
from fingerprint.compare.relation import Relation
from fingerprint.plan import make_plan
from fingerprint.scan import scan

TARGET = Path(__file__).resolve().parents[2] / "fingerprint" / "compare" / "calibration.json"
LIGHT = 0.006
"""Relative size of a change up to which it is light: that of reward-driven updates on a bf16 grid. Heavier
ones are far more coherent: they would thin out the tail, or spread it over two kinds of change."""

SMALLER_GRIDS = (20, 24, 32, 48)
"""Sides of the grid that larger models get: measured on the same families, scanned once more at that size."""

LEAST_SAMPLES = 6
"""Channels with fewer samples get no tail, and then accuse nobody."""

Samples = dict[str, list[tuple[float, float, str]]]
"""Channel to (score, relative size of the change, kind of honest pair)."""


def collect(name: str, depths: tuple[Depth, ...]) -> Samples:
    """Scores of every honest pair of one lineage and of honest models in disguise, for one family."""
    torch.set_num_threads(1)
    known = Known(families.load_family(name, "calibration"))
    samples: Samples = {}
    models = known.family.models
    for candidate, reference, truth in pairs(known.family):
        if truth.relation is Relation.INDEPENDENT:
            continue
        base = None if truth.base is None else known.sources[truth.base]
        for depth in depths:
            e = gather(known.sources[candidate.name], known.sources[reference.name], base=base, known=[], depth=depth)
            _add(samples, e, f"{known.family.name} {pair_kind(candidate.name, reference.name, models)}")
    if Depth.SKETCH in depths:
        _smaller(known, samples)
    for disguise, source, victim in _disguised(known):
        for depth in depths:
            _add(samples, gather(source, victim, base=None, known=[], depth=depth), f"disguised {disguise}")
    sys.stderr.write(f"{known.family.name}: measured\n")
    return samples


def _smaller(known: Known, samples: Samples) -> None:
    """The light pairs once more, through fingerprints of the sizes that larger models get."""
    models = known.family.models
    light = [
        (candidate, reference, truth)
        for candidate, reference, truth in pairs(known.family)
        if pair_kind(candidate.name, reference.name, models) in HARD_KINDS
    ]
    wanted = sorted({m.name for c, r, _ in light for m in (c, r)} | {t.base for *_, t in light if t.base is not None})
    for size in SMALLER_GRIDS:
        small = {n: c for n in wanted if (c := _resized(known.sources[n], size)) is not None}
        for candidate, reference, truth in light:
            if candidate.name in small and reference.name in small:
                base = None if truth.base is None else small.get(truth.base)
                e = gather(small[candidate.name], small[reference.name], base=base, known=[], depth=Depth.SKETCH)
                _add(samples, e, f"{known.family.name} {pair_kind(candidate.name, reference.name, models)}")


def _resized(source: Source, size: int) -> Source | None:
    """The same model in a smaller fingerprint; None where it is no smaller."""
    assert source.checkpoint is not None
    layout = recognise(source.checkpoint)
    plan = make_plan(source.checkpoint, layout)
    if plan.grid <= size:
        return None
    return Source(scan(source.checkpoint, layout=layout, plan=replace(plan, grid=size, side=min(plan.side, size))))


def _disguised(known: Known) -> Iterator[tuple[str, Source, Source]]:
    """Honest children and siblings after a change of gauge."""
    both = (stages(known.family, ("ft-a", "rl")), stages(known.family, ("ft-a", "base-s0"), LIGHT_CHILDREN))
    for stage in itertools.chain(*both):
        for attack in attacks.registry().values():
            if attack.group != "control" or attack.relation is Relation.INDEPENDENT or not attack.applies(stage.scene):
                continue
            folder = Path(tempfile.mkdtemp(prefix="calibrate-"))
            try:
                attacks.write(attacks.perform(attack, stage.scene).model, folder)
                with open_checkpoint(folder) as checkpoint:
                    source = Source(scan(checkpoint), checkpoint)
                    yield attack.name, source, known.sources[stage.names["victim"]]
            finally:
                shutil.rmtree(folder, ignore_errors=True)


def _add(samples: Samples, evidence: Evidence, kind: str) -> None:
    size = total(evidence.changes)
    live = telling(evidence.changes)
    if not any(c.relative > 0.0 for c in evidence.changes):
        live = telling(evidence.stacks)
    for channel in {c.channel for c in live}:
        members = [c for c in live if c.channel == channel]
        if channel == UNSETTLED or 2 * len(members) < len(live):
            continue  # never judged, or the few that another channel left over: that one decides
        score = channel_score(members, exact=evidence.exact_gauge)
        samples.setdefault(channel, []).append((score, size, kind))
    if evidence.gain is not None and "adapter" in kind:
        samples.setdefault("gain", []).append((math.log(max(min(evidence.gain), 1.0)), 0.0, kind))
    if evidence.overlap is not None and "adapter" in kind:
        samples.setdefault("overlap", []).append((math.log(max(*evidence.overlap, CHANCE)), 0.0, kind))


def tail(samples: list[tuple[float, float, str]]) -> Tail | None:
    """Tail of the light changes: their median, and how far those below it stray from it.

    The upper half says nothing about how drawn a learned change may look, so only the lower semi-deviation counts.
    """
    light = np.array([score for score, size, _ in samples if size <= LIGHT])
    if light.size < LEAST_SAMPLES:
        return None
    middle = float(np.median(light))
    below = light[light <= middle]
    spread = max(float(np.sqrt(np.mean((below - middle) ** 2))), LEAST_SPREAD)
    least = max(min(score for score, _, _ in samples), CERTAIN)
    return Tail(round(middle, 4), round(spread, 4), int(light.size), round(least, 4))


CERTAIN = 0.0
"""Log of a mean z that a drawn change does not reach: what small grids show of a light change may be no more."""

LEAST_SPREAD = 0.3
"""Least spread believed: a handful of families agree more closely than all that will ever be submitted."""


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gauntlet.calibrate", description=__doc__)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--depth", choices=[d.value for d in Depth], action="append", help="only this depth")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    depths = tuple(Depth(d) for d in options.depth or [d.value for d in Depth])
    names = families.names("calibration")
    families.build(names, "calibration", _say)
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        parts = pool.starmap(collect, [(n, depths) for n in names], chunksize=1)
    samples: Samples = {}
    for part in parts:
        for channel, scores in part.items():
            samples.setdefault(channel, []).extend(scores)
    raw = cache.root() / "calibration-samples.json"
    raw.write_text(json.dumps(samples, indent=1), encoding="utf-8")
    old = load_calibration()
    measured = {channel: t for channel, scores in sorted(samples.items()) if (t := tail(scores)) is not None}
    tails = {**(old.tails if options.depth else {}), **measured}
    made = Calibration(
        tails=tails,
        thresholds=old.thresholds,
        source={
            "command": "python -m benchmarks.gauntlet.calibrate",
            "families": list(names),
            "split": "calibration",
            "pairs": {channel: len(scores) for channel, scores in sorted(samples.items())},
            "light": LIGHT,
        },
    )
    options.out.write_bytes(made.to_bytes())
    for channel, t in tails.items():
        sys.stdout.write(
            f"{channel:12s} light changes: median {t.mean:.2f}, lower spread {t.sd:.2f} of {t.count}; least of all "
            f"{t.least:.2f}; P(score <= 0) {t.below(0.0):.1e}\n"
        )
    sys.stdout.write(f"{made.digest}\n")
    return 0


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
