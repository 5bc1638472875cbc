"""``python -m benchmarks.packages fetch``: bring the real checkpoints into the cache and list them."""

from __future__ import annotations

import argparse
import sys

from benchmarks.packages.fetch import fetch
from forensics.demo.packages import cache_root
from forensics.errors import ForensicsError, exit_code


def main() -> int:
    """Entry point; exit 4 when the registry cannot be reached."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packages", description=__doc__)
    parser.add_argument("command", choices=["fetch"])
    parser.parse_args()
    try:
        found = fetch(cache_root(), say=lambda line: print(line, file=sys.stderr))
    except ForensicsError as error:
        print(error, file=sys.stderr)
        return int(exit_code(error))
    for name, folder in found.items():
        print(f"{name:26} {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
