"""Thresholds and tails measured on calibration pairs, as one file with a digest.

Made by ``python -m benchmarks.gauntlet.calibrate`` from families that no test uses; every number a decision depends
on is in here or is a named constant beside the rule. A comparison names the digest, so a verdict can be replayed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from fingerprint.errors import FingerprintFileError

SCHEMA = "forensics/calibration/v1"


@dataclass(frozen=True)
class Tail:
    """Distribution of a statistic over non-copies, as a Student predictive distribution.

    Attributes:
        mean: Sample mean.
        sd: Sample standard deviation.
        count: Sample size; the tail gets heavier the smaller it is.
        least: Smallest value seen.
    """

    mean: float
    sd: float
    count: int
    least: float

    def below(self, value: float) -> float:
        """Probability that a new non-copy gives a statistic of at most ``value``."""
        if self.count < 3 or self.sd <= 0.0:
            return 1.0
        spread = self.sd * math.sqrt(1.0 + 1.0 / self.count)
        return float(student.cdf((value - self.mean) / spread, df=self.count - 1))


UNKNOWN = Tail(mean=0.0, sd=0.0, count=0, least=float("inf"))


@dataclass(frozen=True)
class Calibration:
    """What decisions are calibrated on.

    Attributes:
        tails: By channel (``full``, ``sketch-64``, ``kinship``, ``gain``), log mean z of learned changes, of the
            hardest kind: small reward-driven updates.
        thresholds: Named cut-offs.
        source: How it was made: pairs, families, seeds.
    """

    tails: Mapping[str, Tail]
    thresholds: Mapping[str, float]
    source: Mapping[str, Any]

    def tail(self, channel: str) -> Tail:
        """The tail of a channel; one that was never calibrated accuses nobody.

        A sketch of a size that no calibration family has takes the tail of the next smaller size: it sees more than
        that, so a learned change looks no more drawn in it.
        """
        if channel in self.tails:
            return self.tails[channel]
        kind, _, side = channel.rpartition("-")
        if not kind or not side.isdigit():
            return UNKNOWN
        smaller = [int(c.rpartition("-")[2]) for c in self.tails if c.rpartition("-")[0] == kind]
        fitting = [n for n in smaller if n <= int(side)]
        return self.tails[f"{kind}-{max(fitting)}"] if fitting else UNKNOWN

    def to_bytes(self) -> bytes:
        """Canonical JSON; the digest is over these bytes."""
        document = {
            "schema": SCHEMA,
            "tails": {k: asdict(v) for k, v in self.tails.items()},
            "thresholds": dict(self.thresholds),
            "source": dict(self.source),
        }
        return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()

    @property
    def digest(self) -> str:
        """``sha256:`` and 64 hex digits."""
        return "sha256:" + hashlib.sha256(self.to_bytes()).hexdigest()


def parse_calibration(data: bytes, *, where: str) -> Calibration:
    """Read a calibration file.

    Raises:
        FingerprintFileError: It is not one, or lacks a field.
    """
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA:
            raise FingerprintFileError(
                "unknown calibration schema", where=where, got=document["schema"], expected=SCHEMA
            )
        return Calibration(
            tails={k: Tail(**v) for k, v in document["tails"].items()},
            thresholds={k: float(v) for k, v in document["thresholds"].items()},
            source=document["source"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FingerprintFileError(
            "not a calibration file", where=where, got=str(error), expected=SCHEMA,
            remedy="Make one with `make calibration`.",
        ) from error  # fmt: skip


@cache
def load_calibration(path: Path | None = None) -> Calibration:
    """The calibration at ``path``, or the one that ships with this version."""
    if path is None:
        packaged = resources.files("fingerprint.compare").joinpath("calibration.json")
        return parse_calibration(packaged.read_bytes(), where="calibration.json")
    return parse_calibration(path.read_bytes(), where=str(path))
