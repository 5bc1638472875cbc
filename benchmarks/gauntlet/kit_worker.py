"""Runs in the Model Provenance Kit's own environment: pairs of folders in, one JSON line out for each.

Imports nothing of this project. ``decision`` is the kit's own word (its pipeline score, which settles on metadata when
two configs agree), ``identity`` its score of the weights alone.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
from pathlib import Path

import structlog


def main() -> None:
    """Answer until standard input ends."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    from provenancekit import ModelProvenanceScanner  # type: ignore[import-not-found]
    from provenancekit.services.cache import CacheService  # type: ignore[import-not-found]

    answers, sys.stdout = sys.stdout, sys.stderr  # whatever the kit prints must not be taken for an answer
    with tempfile.TemporaryDirectory() as cache:
        scanner = ModelProvenanceScanner(cache=CacheService(Path(cache)))
        for line in sys.stdin:
            candidate, reference = json.loads(line)
            try:
                scores = scanner.compare(candidate, reference).scores
                answer = {"decision": scores.pipeline_score, "identity": scores.identity_score}
            except Exception as error:  # whatever a checkpoint does to it, the next pair must be answered
                answer = {"error": f"{type(error).__name__}: {error}"[:300]}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
