"""A receipt is verified without what only weights need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_verifying_a_receipt_imports_neither_torch_nor_bittensor():
    code = "import forensics.verifying.logged, sys; print([m for m in ('torch', 'bittensor') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_remembering_anchors_does_not_need_the_chains_client():
    code = "import forensics.log_store, forensics.chain.keeping, sys; print('bittensor' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"
