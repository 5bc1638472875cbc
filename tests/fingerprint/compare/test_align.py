"""Aligning undoes every symmetry, alone and stacked, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare.align import Alignment, align
from tests.fingerprint.compare.random_models import CONFIGS, HIDDEN, attacked, canonical, learned, random_model

DECODERS = ("llama", "qwen3", "qwen2", "mixtral")
PRE_NORM = (*DECODERS, "gpt2")
FAMILIES = (*PRE_NORM, "bert")
SYMMETRIES = {
    "fold": PRE_NORM,
    "rotate": PRE_NORM,
    "permute-residual": PRE_NORM,
    "permute-residual-bert": ("bert",),
    "fake-gains": PRE_NORM,
    "rotate-fake-gains": PRE_NORM,
    "scale-residual": PRE_NORM,
    "mix-values": FAMILIES,
    "mix-queries": FAMILIES,
    "permute-heads": FAMILIES,
    "attention-all": FAMILIES,
    "shift-biases": ("gpt2", "bert"),
    "permute-units": FAMILIES,
    "scale-units": DECODERS,
    "split-permute-units": FAMILIES,
    "permute-experts-units": ("mixtral",),
    "pad-vocabulary": FAMILIES,
    "permute-vocabulary": FAMILIES,
    "shift-head": PRE_NORM,
    "identity-layers": PRE_NORM,
    "identity-layers-middle": PRE_NORM,
    "dead-units": FAMILIES,
    "dead-heads": DECODERS,
    "expand-kv-heads": DECODERS,
    "widen-residual": DECODERS,
    "widen-rotate": DECODERS,
    "upcycle": ("llama",),
    "everything": PRE_NORM,
    "everything-bert": ("bert",),
}
CASES = [pytest.param(f, a, id=f"{a}/{f}") for a, families in SYMMETRIES.items() for f in families]


def worst(found: Alignment) -> float:
    return max(found.witness.residuals[s] for s in found.aligned if found.aligned[s].ndim == 2)


@pytest.mark.parametrize(("family", "attack"), CASES)
def test_a_symmetry_is_undone_and_named(family: str, attack: str) -> None:
    victim = random_model(family, 1)
    copy, words = attacked(victim, attack)
    reference = canonical(victim)
    found = align(canonical(copy), reference)
    assert worst(found) < 1e-4
    assert set(found.transforms) == words
    assert found.matched.keys() >= {s for s, x in reference.tensors.items() if x.numel() > 4096}
    assert all(torch.isfinite(x).all() for x in found.aligned.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_noise_on_top_of_everything_is_what_is_left(family: str) -> None:
    victim = random_model(family, 1)
    copy, words = attacked(victim, "everything-bert" if family == "bert" else "everything", "noise-0.05")
    found = align(canonical(copy), canonical(victim))
    matrices = [found.witness.residuals[s] for s in found.aligned if found.aligned[s].ndim == 2]
    assert float(torch.tensor(matrices).median()) < 0.12
    missed = {w for w in words if not w.startswith("noise")} - set(found.transforms)
    assert missed <= {"shifted:biases", "rescaled:query-key"}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [0.002, 0.15, 0.4])
def test_an_honest_change_passes_untouched(family: str, size: float) -> None:
    parent = random_model(family, 1)
    child, reference = canonical(learned(parent, size)), canonical(parent)
    found = align(child, reference)
    assert found.transforms == ()
    assert all(torch.equal(found.aligned[s], child.tensors[s]) for s in child.tensors)
    assert all(torch.equal(found.reference[s], reference.tensors[s]) for s in reference.tensors)


@pytest.mark.parametrize("family", PRE_NORM)
def test_a_disguised_fine_tune_keeps_its_delta(family: str) -> None:
    parent = random_model(family, 1)
    child = learned(parent, 0.15)
    hidden, _ = attacked(child, "rotate", "permute-units", "permute-heads")
    found = align(canonical(hidden), canonical(parent))
    for slot in (Slot(Role.DOWN, 1, 0 if family == "mixtral" else -1), Slot(Role.OUT, 1), Slot(Role.EMBED)):
        assert found.witness.residuals[slot] == pytest.approx(0.15, rel=0.1)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_unrelated_model_is_left_alone(family: str) -> None:
    stranger, reference = canonical(random_model(family, 2)), canonical(random_model(family, 1))
    found = align(stranger, reference)
    assert found.transforms == ()
    assert not found.matched
    assert set(found.unmatched_reference) == set(reference.tensors)
    assert all(torch.equal(found.aligned[s], stranger.tensors[s]) for s in found.aligned)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_disguised_stranger_is_still_a_stranger(family: str) -> None:
    stranger, _ = attacked(random_model(family, 2), "everything")
    assert not align(canonical(stranger), canonical(random_model(family, 1))).matched


@pytest.mark.parametrize("which", ["drop-first", "drop-middle", "drop-last"])
def test_dropped_layers_are_named_and_the_rest_is_found(which: str) -> None:
    victim = random_model("llama", 1)
    found = align(canonical(attacked(victim, which)[0]), canonical(victim))
    assert found.transforms == ("dropped:layers",)
    assert len(found.layer_map) == CONFIGS["llama"]["num_hidden_layers"] - 1
    assert worst(found) == 0.0
    assert {s.layer for s in found.unmatched_reference} == set(range(3)) - set(found.layer_map.values())


def test_scaling_is_a_change_and_no_symmetry() -> None:
    victim = random_model("llama", 1)
    for attack, residual in (("scale-1.01", 0.01), ("scale-1.05", 0.05)):
        found = align(canonical(attacked(victim, attack)[0]), canonical(victim))
        assert found.transforms == ()
        assert found.witness.residuals[Slot(Role.UP, 0)] == pytest.approx(residual, rel=0.02)


def test_the_witness_can_be_checked_again() -> None:
    victim = random_model("llama", 1)
    copy = canonical(attacked(victim, "rotate", "permute-units")[0])
    reference = canonical(victim)
    witness = align(copy, reference).witness
    turned = copy.tensors[Slot(Role.EMBED)] @ witness.rotation
    assert torch.allclose(turned, reference.tensors[Slot(Role.EMBED)], atol=1e-5)
    assert witness.orthogonality < 1e-5
    assert witness.rotation_held_out > 0.99
    gain = reference.tensors[Slot(Role.NORM_MLP, 0)]
    gate = copy.tensors[Slot(Role.GATE, 0)][witness.permutations["mlp:0"]] @ witness.rotation
    assert torch.allclose(gate, reference.tensors[Slot(Role.GATE, 0)] * gain, atol=1e-5)
    assert witness.rotation.shape == (HIDDEN, HIDDEN)


def test_inputs_are_not_written_to() -> None:
    victim = random_model("qwen3", 1)
    copy, reference = canonical(attacked(victim, "everything")[0]), canonical(victim)
    before = [{s: x.clone() for s, x in m.tensors.items()} for m in (copy, reference)]
    align(copy, reference)
    for model, old in zip((copy, reference), before, strict=True):
        assert all(torch.equal(model.tensors[s], old[s]) for s in old)


def test_a_copy_is_found_from_either_side() -> None:
    """Whoever was first: the original may be the candidate and its disguise the known model."""
    victim = random_model("llama", 1)
    copy, _ = attacked(victim, "rotate", "split-permute-units", "pad-vocabulary", "mix-values")
    found = align(canonical(victim), canonical(copy))
    assert worst(found) < 1e-4
    assert found.matched.keys() >= {Slot(Role.EMBED), Slot(Role.DOWN, 2), Slot(Role.QUERY, 0)}


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2"])
@pytest.mark.parametrize("disguise", [(), ("rotate", "permute-units", "permute-heads"), ("everything",)])
def test_names_and_order_taken_away(family: str, disguise: tuple[str, ...]) -> None:
    victim = random_model(family, 1)
    copy, words = attacked(victim, *disguise, "rename-scramble-no-config")
    found = align(canonical(copy), canonical(victim))
    assert worst(found) < (1e-4 if family != "qwen2" else 1e-2)  # mixed key and value biases cannot be told apart
    assert words - set(found.transforms) <= {"shifted:biases"}
    assert "renamed" in found.transforms


@pytest.mark.parametrize("pair", [("gate_proj", "up_proj"), ("k_proj", "v_proj"), ("layers.0.", "layers.2.")])
def test_names_that_lie_are_seen_through(pair: tuple[str, str]) -> None:
    victim = random_model("llama", 1)
    copy, _ = attacked(victim, "permute-units")
    swap = {pair[0]: "#", pair[1]: pair[0]}

    def lie(name: str) -> str:
        for old, new in swap.items():
            name = name.replace(old, new)
        return name.replace("#", pair[1])

    state = {lie(name): x for name, x in copy.state.items()}
    found = align(canonical(replace(copy, state=state)), canonical(victim))
    assert worst(found) < 1e-4
    assert set(found.transforms) == {"permuted:mlp", "renamed"}


@pytest.mark.parametrize("angle", [0.003, 0.05])
def test_a_rotation_too_small_to_see_is_undone(angle: float) -> None:
    victim, _ = attacked(random_model("llama", 1), "fold")
    rng = torch.Generator().manual_seed(3)
    skew = torch.randn(HIDDEN, HIDDEN, generator=rng, dtype=torch.float64)
    turn = torch.linalg.matrix_exp(angle * (skew - skew.T))
    writers = ("o_proj.weight", "down_proj.weight")
    state = {
        name: x if x.ndim < 2 else ((turn.T @ x.double()) if name.endswith(writers) else (x.double() @ turn)).float()
        for name, x in victim.state.items()
    }
    found = align(canonical(replace(victim, state=state)), canonical(random_model("llama", 1)))
    assert worst(found) < 1e-4
    assert set(found.transforms) == {"folded:norms", "rotated:residual"}
