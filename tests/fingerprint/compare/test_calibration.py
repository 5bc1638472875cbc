"""A calibration is one file with a digest; what was never calibrated accuses nobody."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fingerprint.compare.calibration import Tail, load_calibration, parse_calibration
from fingerprint.errors import FingerprintFileError


def test_the_packaged_file_reads_back_to_the_same_bytes_and_digest() -> None:
    calibration = load_calibration()
    again = parse_calibration(calibration.to_bytes(), where="test")
    assert again == calibration
    assert again.digest == calibration.digest


def test_any_changed_number_changes_the_digest() -> None:
    calibration = load_calibration()
    moved = replace(calibration, thresholds={**calibration.thresholds, "coherent": 1.0})
    assert moved.digest != calibration.digest


def test_tails_fall_with_the_score_and_are_heavier_for_fewer_samples() -> None:
    many, few = Tail(4.0, 0.5, 200, 3.0), Tail(4.0, 0.5, 5, 3.0)
    assert many.below(1.0) < many.below(2.0) < many.below(4.0) == pytest.approx(0.5)
    assert few.below(1.0) > 10 * many.below(1.0)


def test_an_unknown_channel_accuses_nobody() -> None:
    assert load_calibration().tail("never measured").below(-100.0) == 1.0


EMPTY = json.dumps({"schema": "forensics/calibration/v1"}).encode()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"schema":"x"}', b"\xff\xfe", EMPTY])
def test_damaged_files_are_refused_by_name(data: bytes) -> None:
    with pytest.raises(FingerprintFileError, match=r"bad\.json"):
        parse_calibration(data, where="bad.json")
