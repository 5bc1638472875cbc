"""A policy is read strictly and named by what it says."""

from __future__ import annotations

import pytest

from forensics.errors import BadInput, Unavailable
from forensics.scoring.policy import default, load, parse
from tests.forensics.scoring.fields import TOML, policy

RULED = """
[environments.TOKENS]
lower_is_better = true
range = [0, 50000]
min_effect = 100
"""


def test_the_default_is_a_policy():
    found = default()
    assert (found.name, found.rule, found.withheld, found.alpha) == ("default", "winner-takes-all", "burn", 0.01)
    assert load(None) == found


def test_rules_of_environments():
    found = policy(RULED)
    rule = found.environment("TOKENS")
    assert (rule.lower_is_better, rule.range, rule.min_effect, rule.ignore) == (True, (0.0, 50_000.0), 100.0, False)
    assert found.environment("other").range is None


def test_the_digest_is_of_what_is_said_not_how():
    text = TOML.format(
        alpha=0.01, worse_alpha=0.05, min_overlap=0.8, unjudged="together", environments="", rule="decayed",
        places=8, withheld="burn", burn=0,
    )  # fmt: skip
    assert parse(text, where="x").digest == parse("# a word\n" + text.replace("0.01", "1e-2"), where="y").digest
    assert parse(text, where="x").digest != policy().digest
    assert policy(RULED).digest != policy().digest


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"alpha": 0}, "alpha"),
        ({"alpha": "true"}, "alpha"),
        ({"alpha": "nan"}, "alpha"),
        ({"worse_alpha": 0.9}, "worse_alpha"),
        ({"rule": "everybody"}, "rule"),
        ({"withheld": "keep"}, "withheld"),
        ({"places": 0}, "places"),
        ({"places": 1.5}, "places"),
        ({"burn": -1}, "uid"),
        ({"unjudged": ""}, "unjudged"),
    ],
)
def test_values_out_of_bounds(change, match):
    with pytest.raises(BadInput, match=match):
        policy(**change)


@pytest.mark.parametrize(
    ("environments", "match"),
    [
        ("[environments.E]\nlower_is_beter = true", "unknown key"),
        ("[environments.E]\nrange = [1, 0]", "range"),
        ("[environments.E]\nrange = [0, inf]", "range"),
        ("[environments.E]\nlower_is_better = 1", "true or false"),
        ("[environments]\nE = 1", "a table"),
        ("[rules]\nx = 1", "unknown key"),
    ],
)
def test_a_misspelt_key_is_not_ignored(environments, match):
    with pytest.raises(BadInput, match=match):
        policy(environments)


def test_files(tmp_path):
    with pytest.raises(Unavailable):
        load(tmp_path / "none.toml")
    for content, match in ((b"name = ", "not TOML"), (b"\xff", "not UTF-8"), (b"name = 'x'", "missing")):
        (tmp_path / "p.toml").write_bytes(content)
        with pytest.raises(BadInput, match=match):
            load(tmp_path / "p.toml")
