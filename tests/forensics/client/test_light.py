"""The client runs beside a validator, without what judging needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAVY = (
    "torch",
    "transformers",
    "sqlalchemy",
    "fastapi",
    "bittensor",
    "numpy",
    "scipy",
    "pyarrow",
    "pydantic",
    "alembic",
)
READ = """
import sys, pathlib, logging
from forensics.client import Scored, VerdictClient
logging.disable()
client = VerdictClient("http://127.0.0.1:9", sys.argv[1], netuid=120, cache=pathlib.Path(sys.argv[2]), tries=1)
reading = client.read()
assert reading.state == "neutral", reading
assert "httpx2" in sys.modules
print([m for m in {heavy} if m in sys.modules])
"""


def test_reading_verdicts_imports_nothing_heavy(tmp_path):
    from tests.forensics.client.world import key

    code = READ.format(heavy=HEAVY)
    command = [sys.executable, "-c", code, key(), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
