"""Every relation is reached by the evidence that carries it, and by none that does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare.calibration import Calibration, Tail
from fingerprint.compare.decide import decide
from fingerprint.compare.evidence import BaseGeometry, Evidence, Mix, Same, SlotChange
from fingerprint.compare.relation import Comparison, Depth, Relation
from fingerprint.compare.structure import Coherence

CALIBRATION = Calibration(
    tails={"full": Tail(4.0, 0.3, 200, 3.2), "gain": Tail(3.5, 0.4, 100, 2.5), "vectors": Tail(2.7, 0.3, 80, 1.9)},
    thresholds={"coherent": 15.0, "equivalent": 0.004},
    source={},
)


def change(layer: int, *, z: float, relative: float = 0.01, **more: object) -> SlotChange:
    plain = SlotChange(
        Slot(Role.GATE, layer), 1000, 0.99, relative, 0.0, 1.0, 0.0, 0.0, relative, Coherence(z / 50, z, 500.0)
    )
    return replace(plain, **more)  # type: ignore[arg-type]


def evidence(z: list[float], **more: object) -> Evidence:
    changes = tuple(change(i, z=value) for i, value in enumerate(z))
    return replace(Evidence("sha256:c", "sha256:r", Depth.FULL, changes=changes), **more)  # type: ignore[arg-type]


def said(e: Evidence) -> Comparison:
    return decide(e, CALIBRATION)


def test_equal_content_is_identical_and_certain() -> None:
    answer = said(evidence([], same=Same.NAMELESS, transforms=("renamed",)))
    assert answer.relation is Relation.IDENTICAL
    assert answer.false_accusation_probability == 0.0
    assert answer.transforms == ("renamed",)


def test_a_drawn_change_is_perturbed_with_its_probability() -> None:
    answer = said(evidence([0.3, -0.5, 0.1, 0.8]))
    assert answer.relation is Relation.PERTURBED
    assert 0.0 < answer.false_accusation_probability < 1e-6
    assert answer.transforms == ("noise:0.01",)


def test_a_learned_change_is_derived_and_accuses_nobody() -> None:
    answer = said(evidence([60.0, 40.0, 55.0, 80.0]))
    assert answer.relation is Relation.DERIVED
    assert answer.false_accusation_probability == 1.0


def test_one_trained_layer_under_noise_is_no_copy() -> None:
    assert not said(evidence([0.1] * 30 + [60.0])).copy


def test_between_drawn_and_learned_nothing_is_concluded() -> None:
    assert said(evidence([9.0, 11.0, 10.0, 9.0])).relation is Relation.INCONCLUSIVE


def test_nothing_left_after_a_symmetry_is_equivalent() -> None:
    still = tuple(change(i, z=0.0, relative=0.0) for i in range(4))
    answer = said(replace(evidence([]), changes=still, transforms=("permuted:mlp",)))
    assert answer.relation is Relation.EQUIVALENT
    assert said(replace(evidence([]), changes=still, transforms=("renamed",))).relation is Relation.IDENTICAL


def test_rounding_alone_is_identical_and_with_a_permutation_equivalent() -> None:
    rounded = tuple(change(i, z=0.2, relative=0.0017, kind="cast:bf16") for i in range(4))
    for transforms, relation in (((), Relation.IDENTICAL), (("permuted:mlp",), Relation.EQUIVALENT)):
        answer = said(replace(evidence([]), changes=rounded, transforms=transforms))
        assert answer.relation is relation
        assert answer.false_accusation_probability == 0.0
        assert answer.transforms == (*transforms, "cast:bf16")


def test_rounding_after_a_rotation_is_equivalent_and_noise_is_not() -> None:
    rounded = tuple(change(i, z=0.2, relative=0.0017) for i in range(6))
    noisy = tuple(change(i, z=0.2, relative=0.01) for i in range(6))
    base = replace(evidence([]), exact_gauge=False, transforms=("rotated:residual",))
    assert said(replace(base, changes=rounded)).relation is Relation.EQUIVALENT
    assert said(replace(base, changes=noisy)).relation is Relation.PERTURBED


@pytest.mark.parametrize(
    ("onto_reference", "onto_candidate", "relation"),
    [(1.0, 0.9, Relation.DERIVED), (0.9, 1.0, Relation.DERIVED), (0.91, 0.91, Relation.SIBLING)],
)
def test_delta_space_tells_children_from_siblings(
    onto_reference: float, onto_candidate: float, relation: Relation
) -> None:
    geometry = BaseGeometry(0.9, onto_reference, onto_candidate, 0.1, 0.1)
    assert said(evidence([60.0] * 4, base=geometry)).relation is relation


def test_a_mixture_names_its_parents_and_is_no_copy() -> None:
    mix = Mix((("sha256:r", 0.6), ("sha256:x", 0.4), ("sha256:y", 0.0)), 0.01)
    answer = said(evidence([60.0] * 4, mix=mix))
    assert answer.relation is Relation.MERGED
    assert [(p.digest, p.weight) for p in answer.parents] == [("sha256:r", 0.6), ("sha256:x", 0.4)]
    assert not answer.copy


def test_a_part_is_partial_and_named() -> None:
    answer = said(evidence([0.0] * 4, unmatched=((Slot(Role.GATE, 9), 3000),)))
    assert answer.relation is Relation.PARTIAL
    assert "layers 0, 1, 2, 3" in answer.why


def test_nothing_in_common_is_independent() -> None:
    assert said(evidence([], unmatched=((Slot(Role.GATE, 0), 10),))).relation is Relation.INDEPENDENT


def test_a_low_rank_change_that_points_nowhere_is_a_random_adapter() -> None:
    adapters = tuple(change(i, z=500.0, rank=0.05) for i in range(4))
    blind = replace(evidence([]), changes=adapters, gain=(0.4, -0.8))
    trained = replace(blind, gain=(40.0, 30.0))
    guided = replace(blind, gain=(120.0, -0.5))
    assert said(blind).relation is Relation.PERTURBED
    assert said(guided).relation is Relation.PERTURBED
    assert said(trained).relation is Relation.DERIVED


def test_norms_alone_are_judged_over_layers() -> None:
    still = tuple(change(i, z=0.0, relative=0.0) for i in range(4))
    vector = replace(change(0, z=0.0), slot=Slot(Role.NORM_MLP, 0))
    stack = change(0, z=0.2, channel="vectors")
    noisy = replace(evidence([]), changes=still, vectors=(vector,), stacks=(stack,))
    trained = replace(noisy, stacks=(change(0, z=20.0, channel="vectors"),))
    assert said(noisy).relation is Relation.PERTURBED
    assert not said(trained).copy


def test_the_answer_is_the_same_bytes_each_time() -> None:
    e = evidence([0.3, -0.5, 0.1, 0.8])
    assert said(e).as_json() == said(e).as_json()
