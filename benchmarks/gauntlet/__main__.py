"""``python -m benchmarks.gauntlet``; the work is in ``run``, where worker processes can import it."""

from __future__ import annotations

import sys

from benchmarks.gauntlet.run import main

if __name__ == "__main__":
    sys.exit(main())
