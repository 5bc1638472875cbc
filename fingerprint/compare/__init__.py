"""Two fingerprints (or checkpoints) in, one Relation out."""

from __future__ import annotations

from fingerprint.compare.calibration import Calibration, load_calibration, parse_calibration
from fingerprint.compare.compare import compare
from fingerprint.compare.relation import COPY_CLASS, Comparison, Depth, LayerEvidence, Parent, Relation
from fingerprint.compare.source import Source

__all__ = [
    "COPY_CLASS",
    "Calibration",
    "Comparison",
    "Depth",
    "LayerEvidence",
    "Parent",
    "Relation",
    "Source",
    "compare",
    "load_calibration",
    "parse_calibration",
]
