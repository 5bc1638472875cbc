"""Policy files: what is understood is in force, and everything else is refused."""

from __future__ import annotations

import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.predicates.verdict import Status
from forensics.errors import Exit, PolicyInvalid, Unavailable
from forensics.policy import Mode, default, load, parse
from forensics.policy.file import DEFAULT, _policy, _Table
from forensics.policy.policy import SHADOW

TEXT = DEFAULT.read_text()


def changed(old: str, new: str) -> bytes:
    assert old in TEXT
    return TEXT.replace(old, new, 1).encode()


def test_the_default_says_what_the_design_says():
    policy = default()
    assert policy.status("copy.perturbed") is Status.PENALISED
    assert policy.status("lineage.derived") is Status.CLEAR
    assert policy.status("lineage.merged") is Status.WATCH
    assert policy.status("priority.tie") is Status.HELD
    assert policy.status("priority.own") is Status.CLEAR
    assert policy.status("something.else") is None
    assert policy.multipliers["penalised"] == "0.0"
    assert policy.detector("copy@1").mode is Mode.ON


def test_a_detector_that_is_not_named_is_in_shadow():
    assert default().detector("sybil@1") is SHADOW
    assert default().detector("copy@2").mode is Mode.SHADOW


def test_comments_spacing_and_order_do_not_change_the_digest():
    bare = re.sub(r"\s*#.*", "", TEXT)
    tables = bare.split("\n[")
    shuffled = "\n[".join([tables[0], *reversed(tables[1:])]).replace(" = ", "   =  ")
    assert parse(bare.encode()).digest == parse(shuffled.encode()).digest == default().digest


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"priority.tie" = "held"', '"priority.tie" = "watch"'),
        ("version = 1\n", "version = 2\n"),
        ('mode = "on"', 'mode = "shadow"'),
        ('decisive = "1e-6"', 'decisive = "1e-7"'),
        ('public_base = "penalised"', 'public_base = "watch"'),
        ('graded = "0.5"', 'graded = "0.6"'),
        ("entries = 0", "entries = 1"),
        ("expires_seconds = 7200", "expires_seconds = 7201"),
    ],
)
def test_every_meaning_is_in_the_digest(old, new):
    assert parse(changed(old, new)).digest != default().digest


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("version = 1\n", "version = 1\ncolour = 1\n", "colour"),
        ('mode = "on"', 'mode = "on"\nmood = 1', "detectors.copy@1.mood"),
        ("entries = 0", "entries = 0\nentry = 1", "operators.entry"),
        ("renew_seconds = 1800", "", "snapshots.renew_seconds"),
        ('name = "default"', 'name = "De Fault"', "name"),
        ("version = 1\n", 'version = "1"\n', "version"),
        ("version = 1\n", "version = true\n", "version"),
        ('schema = "forensics/policy/v1"', 'schema = "forensics/policy/v2"', "schema"),
        ('[detectors."copy@1"]', "[detectors.copy]", "detectors.copy"),
        ('"copy.*" = "penalised"', '"copy" = "penalised"', "findings.copy"),
        ('"copy.*" = "penalised"', '"copy.*" = "unknown"', "findings.copy.*"),
        ('"copy.*" = "penalised"', '"copy.*" = "zero"', "findings.copy.*"),
        ('rejected = "0.0"', "rejected = 0.0", "multipliers.rejected"),
        ('graded = "0.5"', 'graded = "1.5"', "multipliers.graded"),
        ("renew_seconds = 1800", "renew_seconds = 7200", "snapshots.renew_seconds"),
        ("[operators]", "[[operators]]", "operators"),
    ],
)
def test_what_is_not_understood_is_refused_and_named(old, new, where):
    with pytest.raises(PolicyInvalid, match=re.escape(f"my.toml: {where}")) as caught:
        parse(changed(old, new), where="my.toml")
    assert caught.value.exit == Exit.BAD_INPUT
    assert caught.value.expected or "unknown" in caught.value.what


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('decisive = "1e-6"', 'decisive = "1.1e-6"', "rule 1"),
        ('decisive = "1e-6"', 'decisive = "0.01"', "rule 1"),
        ('counts = "1e-3"', 'counts = "0.05"', "rule 2"),
        ('graded = "0.5"', 'graded = "0.0"', "rule 2"),
        ('"lineage.merged" = "watch"', '"lineage.merged" = "penalised"', "clear | watch | held"),
        ('"priority.tie" = "held"', '"priority.tie" = "penalised"', "clear | watch | held"),
        ('"copy.*" = "penalised"', '"copy.*" = "rejected"', "penalised"),
        ('public_base = "penalised"', 'public_base = "rejected"', "penalised"),
        ('rejected = "0.0"', 'rejected = "0.0"\nunknown = "0.5"', "rules 2, 3 and 5"),
        ('rejected = "0.0"', 'rejected = "0.0"\nheld = "0.0"', "rules 2, 3 and 5"),
    ],
)
def test_no_file_loosens_a_hard_rule(old, new, rule):
    with pytest.raises(PolicyInvalid, match=re.escape(rule)):
        parse(changed(old, new))


def test_stricter_is_allowed():
    policy = parse(changed('decisive = "1e-6"', 'decisive = "1e-12"'))
    assert policy.detector("copy@1").decisive == "1e-12"
    assert parse(changed('"commit.*" = "held"', '"commit.*" = "rejected"')).status("commit.invalid") is Status.REJECTED


@pytest.mark.parametrize("raw", [b"\xff", b"= 1", b"a = 1\na = 2", b"[" * 9000, b""])
def test_what_is_no_toml_is_refused(raw):
    with pytest.raises(PolicyInvalid):
        parse(raw)


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path):
    with pytest.raises(Unavailable):
        load(tmp_path / "absent.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (1 << 19))
    with pytest.raises(PolicyInvalid, match="too large"):
        load(tmp_path / "large.toml")


scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=6)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(st.sampled_from(sorted(tomllib.loads(TEXT))), values)
def test_any_other_value_under_any_key_is_refused_in_our_words(key, value):
    found = tomllib.loads(TEXT) | {key: value}
    try:
        made = _policy(_Table(found, "fuzz"))
    except PolicyInvalid as error:
        made = None
        said = error.where
    assert made is not None or said.startswith(f"fuzz: {key}")
