from __future__ import annotations

import hashlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.errors import MalformedFacts
from detectors.evidence import Exculpation, Finding, Kind, Party, decimal, digest_of
from detectors.evidence.finding import MAX_LOG10, log10_capped

WHOLE = {
    "detector": "overfit@1",
    "code": "overfit.exposed",
    "subject": Party(Kind.HOTKEY, "5F"),
    "object": None,
    "log10_likelihood_ratio": 3.25,
    "p_value": 1e-9,
    "null": "permutation/exposure:randomised",
    "evidence": "sha256:" + "0" * 64,
    "measured": {"lift": 0.1, "items": 12, "unit": "a"},
    "exculpatory": (Exculpation("small_lift", "it is small"),),
}


def test_the_document_has_no_floats_and_everything_a_policy_needs():
    document = Finding(**WHOLE).document()
    assert json.loads(json.dumps(document)) == document
    assert document["p_value"] == "1e-9"
    assert document["log10_likelihood_ratio"] == "3.25"
    assert document["measured"] == {"items": 12, "lift": "0.1", "unit": "a"}
    assert document["exculpatory"] == [{"code": "small_lift", "text": "it is small"}]
    assert Finding(**WHOLE).family == "overfit"


def test_the_digest_is_sha256_of_rfc_8785_bytes():
    document = Finding(**WHOLE).document()
    plain = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    assert Finding(**WHOLE).digest == "sha256:" + hashlib.sha256(plain).hexdigest()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("detector", "overfit"),
        ("code", "overfit"),
        ("p_value", 0.0),
        ("p_value", 1.5),
        ("p_value", math.nan),
        ("log10_likelihood_ratio", math.inf),
        ("null", ""),
        ("evidence", "sha256:00"),
    ],
)
def test_what_cannot_be_a_finding_is_refused_and_named(field, value):
    with pytest.raises(MalformedFacts, match=field):
        Finding(**{**WHOLE, field: value})


def test_a_party_has_a_name():
    with pytest.raises(MalformedFacts):
        Party(Kind.MODEL, "")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_decimals_read_back_and_are_spelled_in_one_way(value):
    text = decimal(value)
    assert float(text) == pytest.approx(value, rel=1e-8)
    assert decimal(float(text)) == text
    assert "+" not in text
    assert text != "-0"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_lacks_is_refused(value):
    with pytest.raises(MalformedFacts):
        decimal(value)


def test_a_float_deep_inside_evidence_is_refused_with_its_place():
    with pytest.raises(MalformedFacts, match=r"evidence\.a\[1\]\.b"):
        digest_of({"a": [1, {"b": 0.5}]})


def test_likelihood_ratios_beyond_floats_stay_on_record():
    assert log10_capped(math.inf) == MAX_LOG10
    assert log10_capped(math.log(100)) == pytest.approx(2)
    with pytest.raises(MalformedFacts):
        log10_capped(math.nan)
