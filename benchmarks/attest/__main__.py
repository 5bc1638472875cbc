"""``python -m benchmarks.attest``: what attesting costs; one table, one JSON.

Goals (issue 3): hashing for ownership at most 1.1 times SHA-256 alone over the same bytes in the same run; a receipt
verified within 50 ms. The machine may be busy, so each ratio is taken inside one turn and its spread is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.speed import synthetic

from . import hashing, receipts

RATIO_GOAL, VERIFY_GOAL_MS = 1.1, 50.0


def spread(values: Iterable[float]) -> dict[str, float]:
    """Least, median and most."""
    found = sorted(values)
    return {"least": found[0], "median": statistics.median(found), "most": found[-1]}


def two_shards(folder: Path, single: Path) -> Path:
    """The same tensors in two files, as hubs serve large models."""
    from safetensors import safe_open

    target = folder / f"{single.name}-two-shards"
    if not (target / "config.json").exists():
        target.mkdir(parents=True, exist_ok=True)
        with safe_open(single / "model.safetensors", "pt") as whole:  # type: ignore[no-untyped-call]
            names = list(whole.keys())
            halves = names[: len(names) // 2], names[len(names) // 2 :]
            weight_map: dict[str, str] = {}
            for number, half in enumerate(halves, 1):
                file = f"model-{number:05d}-of-00002.safetensors"
                tensors: dict[str, torch.Tensor] = {name: whole.get_tensor(name) for name in half}
                save_file(tensors, target / file)
                weight_map |= dict.fromkeys(half, file)
        (target / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
        (target / "config.json").write_bytes((single / "config.json").read_bytes())
    return target


def hash_figures(folder: Path, turns: int) -> dict[str, Any]:
    """Seconds and ratios over one checkpoint."""
    found = hashing.take_turns(folder, turns=turns)
    size = sum(file.stat().st_size for file in hashing.files_of(folder))
    return {
        "files": len(hashing.files_of(folder)),
        "bytes": size,
        "gigabytes_per_second_alone": size / 1e9 / statistics.median(t.one_stream for t in found),
        "seconds": [asdict(turn) for turn in found],
        "ratio_to_one_stream": spread(t.ownership / t.one_stream for t in found),
        "ratio_to_two_threads": spread(t.ownership / t.two_threads for t in found),
        "cpu_ratio_to_one_stream": spread(t.ownership_cpu / t.one_stream for t in found),
    }


def verify_figures(leaves: int, times: int) -> dict[str, Any]:
    """Milliseconds of verifying one receipt."""
    with tempfile.TemporaryDirectory() as folder:
        file, log = receipts.make(Path(folder), leaves=leaves)
        return {
            "log_size": leaves,
            "receipt_bytes": file.stat().st_size,
            "verify_ms": spread(receipts.verify_ms(file, log, times=times)),
            "command_ms": receipts.command_ms(file, log, Path(folder) / "home", times=min(times, 5)),
        }


def table(result: dict[str, Any]) -> list[str]:
    """Lines for people."""
    lines = [f"{'hashing for ownership':24}{'GB':>6}{'GB/s alone':>12}{'ratio':>8}{'least':>8}{'most':>8}   against"]
    for name, found in result["hashing"].items():
        for against in ("one_stream", "two_threads"):
            ratio = found[f"ratio_to_{against}"]
            lines.append(
                f"{name:24}{found['bytes'] / 1e9:6.2f}{found['gigabytes_per_second_alone']:12.2f}{ratio['median']:8.2f}"
                f"{ratio['least']:8.2f}{ratio['most']:8.2f}   SHA-256 alone, {against.replace('_', ' ')}"
            )
    ms = result["receipt"]["verify_ms"]
    lines += [
        "",
        f"verifying a receipt      {ms['median']:8.2f} ms ({ms['least']:.2f} to {ms['most']:.2f}), "
        f"goal {VERIFY_GOAL_MS:.0f}",
        f"forensics verify         {result['receipt']['command_ms']:8.0f} ms from start to exit",
    ]
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attest", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a tiny checkpoint; ratios mean nothing then")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--leaves", type=int, default=100_000, help="size of the log the receipt is of")
    parser.add_argument("--times", type=int, default=200, help="verifications")
    parser.add_argument("--cache", type=Path, default=synthetic.root(), help="where synthetic checkpoints are kept")
    parser.add_argument("--out", type=Path, help="JSON file")
    options = parser.parse_args(arguments)
    single = synthetic.checkpoint(synthetic.TINY if options.quick else synthetic.TWO_GB, options.cache)
    folders = {"one file": single, "two shards": two_shards(options.cache, single)}
    result = {
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "goals": {"ratio": RATIO_GOAL, "verify_ms": VERIFY_GOAL_MS},
        "hashing": {name: hash_figures(folder, options.turns) for name, folder in folders.items()},
        "receipt": verify_figures(options.leaves, options.times),
    }
    print("\n".join(table(result)))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
