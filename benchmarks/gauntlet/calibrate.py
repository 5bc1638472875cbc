"""``python -m benchmarks.gauntlet.calibrate``: measure the tails that decisions are calibrated on.

Only families of the ``calibration`` split are used: other shapes, seeds, vocabularies and data draws than any pair the
gauntlet tests. For every channel the tail is that of the *hardest kind* of honest change - the kind whose own
distribution gives the largest probability of looking drawn - so that easy kinds cannot thin it out.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks.gauntlet import attacks, families
from benchmarks.gauntlet.honest import pairs
from benchmarks.gauntlet.judge import Known, pair_kind
from benchmarks.gauntlet.scenes import stages
from fingerprint.checkpoint import open_checkpoint
from fingerprint.compare import Calibration, Depth, Source, load_calibration
from fingerprint.compare.calibration import Tail
from fingerprint.compare.compare import gather
from fingerprint.compare.decide import channel_score, telling
from fingerprint.compare.evidence import Evidence
from fingerprint.compare.relation import Relation
from fingerprint.scan import scan

TARGET = Path(__file__).resolve().parents[2] / "fingerprint" / "compare" / "calibration.json"
PROBE = 0.5
"""Score at which kinds are compared: where copies lie (a mean z of 1.6)."""

LEAST_SAMPLES = 6
"""Kinds with fewer pairs are pooled with the next easier kind, lest a tail rests on a handful."""

Samples = dict[str, dict[str, list[float]]]
"""Channel to kind of honest change to scores."""


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
            e = gather(
                known.sources[candidate.name], known.sources[reference.name], base=base, known=[], depth=depth
            )
            _add(samples, e, f"{known.family.name} {pair_kind(candidate.name, reference.name, models)}")
    for disguise, source, reference in _disguised(known):
        for depth in depths:
            _add(samples, gather(source, reference, base=None, known=[], depth=depth), f"disguised {disguise}")
    sys.stderr.write(f"{known.family.name}: measured\n")
    return samples


def _disguised(known: Known) -> Iterator[tuple[str, Source, Source]]:
    """Honest children and siblings after a change of gauge."""
    for stage in stages(known.family, ("ft-a", "base-s0", "rl")):
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
    for changes in (evidence.changes, evidence.stacks):
        live = telling(changes)
        for channel in {c.channel for c in live}:
            score = channel_score([c for c in live if c.channel == channel])
            samples.setdefault(channel, {}).setdefault(kind, []).append(score)
    if evidence.gain is not None:
        score = math.log(max(min(evidence.gain), 1.0))
        samples.setdefault("gain", {}).setdefault(kind, []).append(score)


def tail(kinds: dict[str, list[float]]) -> Tail:
    """The tail of the hardest kind that has enough pairs, with the least score of all kinds."""
    ordered = sorted(kinds.items(), key=lambda item: float(np.mean(item[1])))
    pooled: list[float] = []
    candidates = []
    for _, scores in ordered:
        pooled = scores if len(scores) >= LEAST_SAMPLES else [*pooled, *scores]
        if len(pooled) >= LEAST_SAMPLES:
            candidates.append(_tail(pooled))
            pooled = []
    if not candidates:
        candidates = [_tail([s for scores in kinds.values() for s in scores])]
    hardest = max(candidates, key=lambda t: t.below(PROBE))
    return replace(hardest, least=min(min(s) for s in kinds.values()))


def _tail(scores: list[float]) -> Tail:
    return Tail(
        round(float(np.mean(scores)), 4), round(float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0, 4),
        len(scores), round(min(scores), 4),
    )  # fmt: skip


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gauntlet.calibrate", description=__doc__)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--depth", choices=[d.value for d in Depth], action="append", help="only this depth")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args()
    depths = tuple(Depth(d) for d in options.depth or [d.value for d in Depth])
    names = families.names("calibration")
    families.build(names, "calibration", lambda line: sys.stderr.write(line + "\n"))
    with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
        parts = pool.starmap(collect, [(n, depths) for n in names], chunksize=1)
    samples: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for part in parts:
        for channel, kinds in part.items():
            for kind, scores in kinds.items():
                samples[channel][kind] += scores
    old = load_calibration()
    tails = {**(old.tails if options.depth else {}), **{c: tail(kinds) for c, kinds in sorted(samples.items())}}
    made = Calibration(
        tails=tails,
        thresholds=old.thresholds,
        source={
            "command": "python -m benchmarks.gauntlet.calibrate",
            "families": list(names),
            "split": "calibration",
            "pairs": {channel: sum(map(len, kinds.values())) for channel, kinds in sorted(samples.items())},
        },
    )
    options.out.write_bytes(made.to_bytes())
    for channel, t in tails.items():
        sys.stdout.write(
            f"{channel:12s} hardest kind: mean {t.mean:.2f} sd {t.sd:.2f} of {t.count}; least of all {t.least:.2f}; "
            f"P(score <= 0) {t.below(0.0):.1e}\n"
        )
    sys.stdout.write(f"{made.digest}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
