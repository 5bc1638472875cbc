"""Models without roles: axes, gates and units in another order are found, formulas and strangers are not evidence."""

from __future__ import annotations

import math

import pytest
import torch

from fingerprint.compare.align import Alignment, align, load
from fingerprint.compare.align.constants import formulaic
from fingerprint.compare.align.generic import look
from tests.fingerprint.memory import MemoryCheckpoint

from fingerprint.architecture import recognise  # isort: skip


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def network(seed: int) -> dict[str, torch.Tensor]:
    return {
        "conv1.weight": normal(seed, 32, 3, 5, 5),
        "conv1.bias": normal(seed + 1, 32),
        "conv2.weight": normal(seed + 2, 64, 32, 3, 3),
        "conv2.bias": normal(seed + 3, 64),
        "lstm.weight_ih": normal(seed + 4, 4 * 24, 64),
        "lstm.weight_hh": normal(seed + 5, 4 * 24, 24),
        "dense.weight": normal(seed + 6, 100, 120),
    }


def compared(candidate: dict[str, torch.Tensor], reference: dict[str, torch.Tensor]) -> Alignment:
    sides = [MemoryCheckpoint(state) for state in (candidate, reference)]
    return align(*(load(side, recognise(side)) for side in sides))


def exact(found: Alignment, reference: dict[str, torch.Tensor]) -> bool:
    by_name = {s.name: x for s, x in found.aligned.items()}
    return all(torch.equal(by_name[name], x) for name, x in reference.items())


def test_the_same_tensors_need_nothing_undone() -> None:
    found = compared(network(0), network(0))
    assert found.transforms == ()
    assert len(found.matched) == 7


def test_axes_and_names_are_found() -> None:
    reference = network(0)
    candidate = {f"x{i}": x for i, x in enumerate(reversed(list(reference.values())))}
    candidate = {n: x.permute(2, 3, 1, 0) if x.ndim == 4 else x.T if x.ndim == 2 else x for n, x in candidate.items()}
    found = compared(candidate, reference)
    assert exact(found, reference)
    assert found.transforms == ("axes-permuted", "renamed", "transposed")
    assert len(found.matched) == 7


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (1, 0, 2, 3), (3, 0, 2, 1)])
def test_gates_in_another_order_are_found(order: tuple[int, ...]) -> None:
    reference = network(0)
    candidate = dict(reference)
    for name in ("lstm.weight_ih", "lstm.weight_hh"):
        blocks = reference[name].chunk(4)
        candidate[name] = torch.cat([blocks[i] for i in order])
    found = compared(candidate, reference)
    assert exact(found, reference)
    assert "permuted:gates" in found.transforms


def test_units_in_another_order_are_found_through_noise() -> None:
    reference = network(0)
    rows, columns = torch.randperm(100), torch.randperm(120)
    candidate = {**reference, "dense.weight": reference["dense.weight"][rows][:, columns] + 0.02 * normal(9, 100, 120)}
    found = compared(candidate, reference)
    dense = next(s for s in found.aligned if s.name == "dense.weight")
    assert found.witness.residuals[dense] == pytest.approx(0.02, rel=0.1)
    assert "permuted:units" in found.transforms


def test_a_stranger_matches_nothing() -> None:
    found = compared(network(50), network(0))
    assert not found.matched
    assert found.transforms == ()
    assert len(found.aligned) == 7


def test_part_of_a_network_is_found_for_what_it_is() -> None:
    reference = network(0)
    candidate = {**network(50), "conv2.weight": reference["conv2.weight"]}
    found = compared(candidate, reference)
    assert [s.name for s in found.matched] == ["conv2.weight"]


def test_noise_stays_in_the_delta() -> None:
    way = look(normal(0, 40, 30).T + 0.1 * normal(1, 30, 40), normal(0, 40, 30))
    assert way.word == "transposed"
    assert float((way.tensor - normal(0, 40, 30)).norm() / normal(0, 40, 30).norm()) == pytest.approx(0.1, rel=0.1)


def test_formulas_are_no_evidence() -> None:
    n = torch.arange(512)
    stft = torch.stack([torch.cos(2 * math.pi * k * n / 512) * torch.hann_window(512) for k in range(1, 200)])
    place = torch.arange(300)[:, None] / 10000 ** (2 * torch.arange(64)[None, :] / 128)
    assert formulaic(stft)
    assert formulaic(torch.cat([place.sin(), place.cos()], dim=1))
    assert formulaic(torch.ones(64, 64))
    assert formulaic(1.0 / 10000 ** (torch.arange(32) / 32))
    assert formulaic(torch.arange(512).float())
    assert not formulaic(normal(0, 64, 128))
    assert not formulaic(normal(0, 2000, 96).cumsum(dim=1))
    found = compared({**network(50), "stft": stft}, {**network(0), "stft": stft})
    assert not found.matched
