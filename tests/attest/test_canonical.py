"""Strict JSON: everything two readers could understand differently is refused."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest import canonical
from attest.errors import InputTooLarge, MalformedInput, NotCanonical

REFUSED = {
    "duplicate key": b'{"a":1,"a":1}',
    "duplicate key, escaped": b'{"a":1,"\\u0061":2}',
    "duplicate key, deep": b'{"x":[{"a":1,"a":2}]}',
    "float": b'{"a":1.5}',
    "exponent": b'{"a":1e2}',
    "integral float": b'{"a":1.0}',
    "minus zero": b'{"a":-0}',
    "NaN": b'{"a":NaN}',
    "infinity": b'{"a":-Infinity}',
    "2^53": b'{"a":9007199254740992}',
    "-2^53": b'{"a":-9007199254740992}',
    "5000 digits": b'{"a":' + b"1" * 5000 + b"}",
    "lone high surrogate": b'{"a":"\\ud800"}',
    "lone low surrogate": b'{"a":"\\udc00x"}',
    "lone surrogate in a key": b'{"\\ud800":1}',
    "surrogate as UTF-8": b'{"a":"\xed\xa0\x80"}',
    "byte-order mark": b'\xef\xbb\xbf{"a":1}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "trailing text": b'{"a":1} {"a":2}',
    "trailing comma": b'{"a":1,}',
    "single quotes": b"{'a':1}",
    "comment": b'{"a":1/**/}',
    "control character": b'{"a":"\x00"}',
    "empty": b"",
    "no object": b"[1]",
    "leading zero": b'{"a":01}',
    "plus": b'{"a":+1}',
}


@pytest.mark.parametrize("name", REFUSED)
def test_ambiguous_json_is_refused(name: str) -> None:
    with pytest.raises(MalformedInput):
        canonical.read_object(REFUSED[name])


def test_largest_integers_and_paired_surrogates_are_read() -> None:
    assert canonical.read(b'[9007199254740991,-9007199254740991,"\\ud83d\\ude00"]') == [2**53 - 1, 1 - 2**53, "😀"]


@pytest.mark.parametrize(
    "data", [b"[" * 100_000, b'{"a":' * 50_000, b"[" * 33 + b"]" * 33], ids=["list", "object", "33"]
)
def test_depth_is_bounded_before_parsing(data: bytes) -> None:
    with pytest.raises(InputTooLarge) as caught:
        canonical.read(data)
    assert caught.value.code == "input_too_large"


def test_brackets_inside_text_do_not_count_as_depth() -> None:
    text = "[{" * 100 + '\\"['
    assert canonical.read(json.dumps([text]).encode()) == [text]


@pytest.mark.parametrize("data", [b'\\"' * 500_000, b'"' + b"\\" * 1_000_001, b'"[' * 500_000])
def test_hostile_text_costs_one_pass(data: bytes) -> None:
    began = time.process_time()
    with pytest.raises(MalformedInput):
        canonical.read(data)
    assert time.process_time() - began < 3


def test_the_number_of_values_is_bounded_before_parsing() -> None:
    most = b"[" + b"1," * canonical.MAX_VALUES + b"1]"
    assert len(canonical.read(most)) == canonical.MAX_VALUES + 1  # type: ignore[arg-type]
    with pytest.raises(InputTooLarge, match="too many values"):
        canonical.read(most[:-1] + b",x")


def test_size_is_bounded_before_anything_is_read() -> None:
    with pytest.raises(InputTooLarge):
        canonical.read(b" " * 11, max_bytes=10)


@pytest.mark.parametrize("data", [b'{"a": 1}', b'{"b":1,"a":2}', b'{"a":"\\u0041"}', b'{"a":1}\n', b'{"a":"\\/"}'])
def test_other_spellings_of_signed_material_are_refused(data: bytes) -> None:
    assert canonical.read_object(data)
    with pytest.raises(NotCanonical):
        canonical.read_canonical(data)


def test_keys_are_sorted_by_utf16_units_as_in_rfc_8785() -> None:
    # RFC 8785 section 3.2.3: by UTF-16 code units U+1F600 (D83D DE00) comes before U+FB33.
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    written = canonical.read(canonical.write(dict.fromkeys(names, 0)))
    assert isinstance(written, dict)
    assert list(written) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize("value", [1.0, [2**53], {"a": float("nan")}, "\ud800", {"a": b"x"}, {1: 2}, {"\udc00": 1}])
def test_what_could_not_be_read_back_is_not_written(value: object) -> None:
    with pytest.raises(MalformedInput):
        canonical.write(value)


def test_a_bottomless_value_is_not_written() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(MalformedInput):
        canonical.write(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_what_is_written_is_read_back_as_canonical(value: dict[str, canonical.Json]) -> None:
    assert canonical.read_canonical(canonical.write(value)) == value


@settings(deadline=None)  # a busy machine is not a failure
@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:0123456789eE+-.\\ud8anullrtfs ', max_size=60).map(str.encode))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        value = canonical.read(data)
    except MalformedInput:
        return
    assert json.loads(data) == value
