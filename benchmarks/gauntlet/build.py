"""Build the gauntlet's families: ``python -m benchmarks.gauntlet.build [--family F] [--split S] [--quick]``."""

from __future__ import annotations

import argparse
import sys
import time
import warnings


def main(argv: list[str] | None = None) -> int:
    """Build what is missing; prints a line per model on stderr."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", action="append", help="only this family (repeatable)")
    parser.add_argument("--split", choices=("test", "calibration", "quick"), action="append")
    parser.add_argument("--quick", action="store_true", help="the small split for CI (same as --split quick)")
    chosen = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    from transformers.utils import logging

    from benchmarks.gauntlet import families

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    started = time.monotonic()
    asked = ["quick"] if chosen.quick else chosen.split or ["test", "calibration"]
    for split in [s for s in families.SPLITS if s in asked]:
        known = families.names(split)
        wanted = [f for f in chosen.family or known if f in known]
        families.build(wanted, split, lambda line: print(line, file=sys.stderr, flush=True))
    print(f"built in {time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
