"""The speed benchmark measures what it says: real scans, of checkpoints that readers accept."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.speed import size, stages, synthetic
from fingerprint import streaming
from fingerprint.checkpoint import open_checkpoint
from fingerprint.scan import scan


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.checkpoint(synthetic.TINY, tmp_path_factory.mktemp("speed"))


def test_a_synthetic_checkpoint_is_a_decoder(folder: Path) -> None:
    with open_checkpoint(folder) as checkpoint:
        found = scan(checkpoint)
    assert found.meta.family == "decoder"
    assert set(found.layers) == set(range(synthetic.TINY.layers))
    assert all(layer.units is not None and layer.heads is not None for layer in found.layers.values())


def test_every_stage_is_measured_and_the_stopwatches_come_off(folder: Path) -> None:
    before = streaming.MatrixPass.finish
    measured = stages.measure(folder, threads=1)
    assert streaming.MatrixPass.finish is before
    assert all(seconds > 0 for seconds in measured.stages.values())
    assert sum(measured.stages.values()) <= measured.scanning.cpu * 1.05


def test_a_fingerprint_is_sized_without_weights() -> None:
    assert 10_000 < size.fingerprint_bytes(synthetic.TINY) < 1_000_000


@pytest.mark.slow
def test_an_8b_shape_stays_within_a_megabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets depend on the number of matrices, layers and heads, not on their sides: the same model at an eighth."""
    like = synthetic.Shape("llama-8b-thin", 512, 1792, 32, 32, 8, 4096)
    monkeypatch.setattr("fingerprint.plan.VECTOR_BYTES", 0)
    assert size.fingerprint_bytes(like) < 1_000_000
