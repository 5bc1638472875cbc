"""The Model Provenance Kit (Cisco, PyPI ``cisco-ai-provenance-kit``) as a rival, where it is installed.

It needs an environment of its own (it pins another stack): ``make gauntlet`` with ``PROVENANCE_KIT`` set to that
environment's Python. Its question is descent, not copying, so its accusations of honest children are what it is built
to say; the figures show what a validator would get who took its word for a copy.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

VARIABLE = "PROVENANCE_KIT"
MATCH = 0.75
"""Score above which the kit says high-confidence match (its ``core.scoring``, version 1.0.0)."""
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


class Kit:
    """One process of the kit, asked pair by pair.

    Args:
        python: Interpreter of the environment it is installed in.
    """

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, str(Path(__file__).with_name("kit_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HOME": "/nonexistent"},
        )

    @classmethod
    def installed(cls) -> Kit | None:
        """The kit that the environment names; None where it names none."""
        python = os.environ.get(VARIABLE)
        return cls(python) if python else None

    def __enter__(self) -> Kit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def verdicts(self, candidate: Path, reference: Path) -> dict[str, bool]:
        """Whether it says match: by its own decision, and by its score of the weights alone.

        A candidate without a tokenizer gets the reference's, as a copier would ship it. What it cannot read is
        no match.
        """
        for name in _TOKENIZER:
            if (reference / name).exists() and not (candidate / name).exists():
                shutil.copyfile(reference / name, candidate / name)
        said = self._ask(candidate, reference)
        return {
            "provenance kit": said.get("decision", math.nan) > MATCH,
            "provenance kit, weights": said.get("identity", math.nan) > MATCH,
        }

    def _ask(self, candidate: Path, reference: Path) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(candidate), str(reference)]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the provenance kit ended; does {VARIABLE} name the Python it is installed in?")
        answer = json.loads(line)
        return {name: value for name, value in answer.items() if isinstance(value, float | int)}
