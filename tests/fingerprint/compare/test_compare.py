"""The whole way, from two checkpoints to one relation, on small random models of every family."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from benchmarks.gauntlet import attacks
from benchmarks.gauntlet.attacks import Model, Scene
from fingerprint.compare import Comparison, Depth, Relation, Source, compare
from fingerprint.errors import FingerprintFileError
from fingerprint.scan import scan
from tests.fingerprint.compare.random_models import CONFIGS, attacked, learned, random_model
from tests.fingerprint.memory import MemoryCheckpoint

FAMILIES = sorted(CONFIGS)


def source(model: Model, *, files: bool = True) -> Source:
    checkpoint = MemoryCheckpoint(attacks.laid_out(model), model.config)
    return Source(scan(checkpoint), checkpoint if files else None)


@cache
def victim(family: str) -> Source:
    return source(random_model(family, 1))


def said(model: Model, family: str, **options: object) -> Comparison:
    return compare(source(model), victim(family), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_is_identical_to_itself(family: str) -> None:
    answer = said(random_model(family, 1), family)
    assert answer.relation is Relation.IDENTICAL
    assert answer.false_accusation_probability == 0.0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("attack", ["permute-units", "permute-heads", "mix-values", "split-units"])
def test_symmetries_are_equivalent_and_named(family: str, attack: str) -> None:
    model, words = attacked(random_model(family, 1), attack)
    answer = said(model, family)
    assert answer.relation is Relation.EQUIVALENT, answer.why
    assert words <= set(answer.transforms)


@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2"])
def test_everything_at_once_is_equivalent(family: str) -> None:
    model, _ = attacked(random_model(family, 1), "everything-f32")
    assert said(model, family).relation is Relation.EQUIVALENT


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("attack", ["noise-0.01", "quantise-int8-row", "prune-0.1", "scale-1.01"])
def test_drawn_changes_are_perturbed(family: str, attack: str) -> None:
    model, words = attacked(random_model(family, 1), attack)
    answer = said(model, family)
    assert answer.relation is Relation.PERTURBED, answer.why
    assert answer.copy
    assert 0.0 <= answer.false_accusation_probability <= 1e-3
    assert {w.split(":")[0] for w in words} <= {t.split(":")[0] for t in answer.transforms}


@pytest.mark.parametrize("depth", list(Depth))
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [0.01, 0.2])
def test_learned_changes_are_never_copies(family: str, size: float, depth: Depth) -> None:
    answer = said(learned(random_model(family, 1), size), family, depth=depth)
    assert not answer.copy
    assert answer.relation in (Relation.DERIVED, Relation.INCONCLUSIVE), answer.why


@pytest.mark.parametrize("depth", list(Depth))
@pytest.mark.parametrize("family", FAMILIES)
def test_strangers_are_never_copies(family: str, depth: Depth) -> None:
    answer = said(random_model(family, 2), family, depth=depth)
    assert answer.relation in (Relation.INDEPENDENT, Relation.INCONCLUSIVE), answer.why


def test_interpolation_toward_the_base_is_a_copy_and_the_base_is_not() -> None:
    base = random_model("llama", 1)
    champion = learned(base, 0.2)
    state = {n: 0.9 * champion.state[n] + 0.1 * base.state[n] for n in base.state}
    answer = compare(source(replace(base, state=state)), source(champion), base=source(base))
    assert answer.relation is Relation.PERTURBED
    assert "interpolated:0.1" in answer.transforms
    assert not compare(source(base), source(champion), base=source(base)).copy


def test_siblings_are_told_by_the_base() -> None:
    base = random_model("llama", 1)
    one, other = learned(base, 0.1, seed=5), learned(base, 0.1, seed=6)
    answer = compare(source(one), source(other), base=source(base))
    assert answer.relation is Relation.SIBLING


def test_a_soup_names_its_parents_with_their_weights() -> None:
    base = random_model("llama", 1)
    one, other = source(learned(base, 0.1, seed=5)), source(learned(base, 0.1, seed=6))
    a, b = learned(base, 0.1, seed=5).state, learned(base, 0.1, seed=6).state
    soup = replace(base, state={n: 0.7 * a[n] + 0.3 * b[n] for n in a})
    answer = compare(source(soup), one, known=[one, other])
    assert answer.relation is Relation.MERGED
    assert {p.digest: p.weight for p in answer.parents} == pytest.approx(
        {one.fingerprint.content_root: 0.7, other.fingerprint.content_root: 0.3}, abs=0.01
    )


def test_a_graft_is_partial() -> None:
    scene = Scene(random_model("llama", 1), stranger=random_model("llama", 2))
    made = attacks.perform(attacks.registry()["graft-lower-half"], scene)
    answer = said(made.model, "llama")
    assert answer.relation is Relation.PARTIAL
    assert 0.2 < answer.coverage < 0.8


def test_without_files_the_answer_is_at_sketch_depth_and_says_so() -> None:
    answer = compare(source(random_model("llama", 1), files=False), victim("llama"))
    assert answer.relation is Relation.IDENTICAL
    assert answer.depth is Depth.SKETCH


def test_fingerprints_of_two_keys_are_not_compared() -> None:
    checkpoint = MemoryCheckpoint(dict(random_model("llama", 1).state), CONFIGS["llama"])
    other = Source(scan(checkpoint, key=b"another key of the service"), checkpoint)
    with pytest.raises(FingerprintFileError, match="cannot be compared"):
        compare(other, victim("llama"))


def test_the_answer_does_not_depend_on_threads() -> None:
    model, _ = attacked(random_model("llama", 1), "rotate")
    before = torch.get_num_threads()
    try:
        answers = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            answers.append(said(model, "llama").as_json())
    finally:
        torch.set_num_threads(before)
    assert answers[0]["relation"] == answers[1]["relation"]
    assert answers[0]["transforms"] == answers[1]["transforms"]


@pytest.mark.parametrize("depth", list(Depth))
def test_models_of_nothing_but_nan_or_zeros_are_nobodys_copy(depth: Depth) -> None:
    model, other = random_model("llama", 1), random_model("llama", 2)
    nan = replace(model, state={n: torch.full_like(t, torch.nan) for n, t in model.state.items()})
    zero = replace(model, state={n: torch.zeros_like(t) for n, t in model.state.items()})
    thirds = [replace(m, state={n: _every_third(t) for n, t in m.state.items()}) for m in (model, other)]
    for candidate, reference in ((zero, nan), (nan, zero), tuple(thirds), (nan, model), (model, zero)):
        answer = compare(source(candidate), source(reference), depth=depth)
        assert answer.relation is Relation.INCONCLUSIVE
        assert "NaN" in answer.why or "zero" in answer.why
    assert compare(source(nan), source(nan), depth=depth).relation is Relation.IDENTICAL  # by digest


@pytest.mark.parametrize("depth", list(Depth))
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_one_value_that_is_no_number_hides_no_copy(depth: Depth, value: float) -> None:
    model = random_model("llama", 1)
    state = dict(model.state)
    embed = next(n for n in state if "embed" in n)
    state[embed] = state[embed].clone()
    state[embed][-1, 0] = value
    answer = compare(source(replace(model, state=state)), source(model), depth=depth)
    assert answer.copy or (depth is Depth.SKETCH and answer.relation is Relation.INCONCLUSIVE), answer.why
    assert not compare(source(replace(model, state=state)), source(random_model("llama", 2)), depth=depth).copy


def _every_third(tensor: torch.Tensor) -> torch.Tensor:
    changed = tensor.clone()
    changed.view(-1)[::3] = torch.nan
    return changed
