"""Affine's scores response in, its weights response out."""

from __future__ import annotations

import numpy as np
import pytest

from forensics.errors import BadInput, Unavailable
from forensics.scoring.affine import parse_response, read_response
from forensics.scoring.field import Means
from forensics.scoring.report import document
from forensics.scoring.run import Standing, score
from forensics.scoring.seats import seat
from tests.forensics.client.world import address, revision
from tests.forensics.scoring.fields import policy


def entry(name: str, uid: int, block: int, scores: dict[str, object], **changes: object) -> dict[str, object]:
    return {
        "miner_hotkey": address(name),
        "uid": uid,
        "model_revision": revision(name),
        "model": f"user/affine-{name}",
        "model_type": "qwen3",
        "first_block": block,
        "overall_score": 0.5,
        "average_score": 0.5,
        "scores_by_env": scores,
        "total_samples": 100,
        "is_valid": True,
        "invalid_reason": None,
        "challenge_status": "sampling",
        "termination_reason": None,
    } | changes


def env(mean: float, count: int = 400, *, key: str = "score") -> dict[str, object]:
    return {key: mean, "sample_count": count}


def response(*entries: dict[str, object]) -> dict[str, object]:
    return {"block_number": 8_512_345, "calculated_at": 1_780_000_000, "scores": list(entries)}


CHAMPION = entry("ada", 3, 100, {"SWE": env(0.5), "DISTILL": env(-0.2)})
BETTER = entry("bob", 4, 200, {"SWE": env(0.8, key="mean"), "DISTILL": env(0.1)})


def test_a_response_becomes_weights_in_affines_shape():
    copy = entry("eve", 5, 300, {"SWE": env(0.81), "DISTILL": env(0.1)})
    cheat = entry(
        "mallory", 6, 50, {"SWE": env(0.99), "DISTILL": env(0.9)}, is_valid=False,
        invalid_reason="plagiarism:duplicate_of_uid=3",
    )  # fmt: skip
    read = parse_response(response(copy, BETTER, cheat, CHAMPION), policy())
    found = score(read.field, policy())
    said = document(found, seat(found, block=read.block), block=read.block)
    assert said["block_number"] == 8_512_345
    assert said["weights"] == {"4": {"weight": 1.0}}
    assert [row.standing for row in found.rows] == [
        Standing.OUT,
        Standing.DETHRONED,
        Standing.CROWN,
        Standing.HELD,
    ]
    assert "plagiarism:duplicate_of_uid=3" in said["models"][0]["why"]


def test_an_environment_outside_zero_and_one_needs_a_range_to_prove_anything():
    pair = response(CHAMPION, entry("bob", 4, 200, {"SWE": env(0.5), "DISTILL": env(0.6)}))
    blind = score(parse_response(pair, policy()).field, policy())
    assert blind.crowns == (0,)
    assert any("DISTILL: no error is known" in note for note in blind.notes)
    ruled = policy("[environments.DISTILL]\nrange = [-1, 1]")
    assert score(parse_response(pair, ruled).field, ruled).crowns == (0, 1)


def test_uids_of_system_models_are_burned():
    for uid in (-1, 1001):
        found = score(parse_response(response(CHAMPION | {"uid": uid}), policy()).field, policy())
        seated = seat(found)
        assert (seated.by_uid, seated.alarms) == ({0: 1.0}, ())


def test_two_hotkeys_under_one_uid_overwrite_nobody():
    found = score(parse_response(response(CHAMPION, BETTER | {"uid": 3}), policy()).field, policy())
    seated = seat(found)
    assert seated.by_hotkey == {address("bob"): 1.0}
    assert {alarm.code for alarm in seated.alarms} == {"seat_contested"} | ({"weight_lost"} if seated.by_uid else set())


def test_tokens_count_down():
    rules = policy("[environments.TOKENS]\nlower_is_better = true\nrange = [0, 10000]")
    pair = response(entry("ada", 1, 1, {"TOKENS": env(6000, 4000)}), entry("bob", 2, 2, {"TOKENS": env(4000, 4000)}))
    field = parse_response(pair, rules).field
    (environment,) = field.environments
    assert isinstance(environment, Means)
    assert environment.mean.tolist() == [-6000, -4000]
    found = score(field, rules)
    assert found.crowns == (0, 1)
    assert found.rows[1].scores == {"TOKENS": (4000.0, 4000)}


def test_an_environment_that_only_some_were_measured_in():
    half = entry("bob", 4, 200, {"SWE": env(0.9)})
    field = parse_response(response(CHAMPION, half, entry("eve", 5, 300, {})), policy()).field
    assert np.isnan(field.environments[0].mean[1])  # type: ignore[union-attr]
    found = score(field, policy())
    assert found.crowns == (0,)  # better in SWE, and nothing to show in DISTILL
    assert [alarm.code for alarm in found.alarms] == ["no_scores"]


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ([], "not an object"),
        ({}, "no list of scores"),
        ({"block_number": 1, "scores": []}, "no list of scores"),
        ({"block_number": 1, "scores": [7]}, "not an object"),
        ({"scores": [CHAMPION]}, "block_number"),
        (response(CHAMPION, CHAMPION), "one model comes twice"),
        (response(CHAMPION | {"first_block": -1}), "first_block"),
        (response(CHAMPION | {"first_block": True}), "first_block"),
        (response(CHAMPION | {"model_revision": None}), "model_revision"),
        (response(CHAMPION | {"miner_hotkey": "a b"}), "not a hotkey"),
        (response(CHAMPION | {"uid": 70_000}), "not a uid"),
        (response(CHAMPION | {"is_valid": "yes"}), "is_valid"),
        (response(CHAMPION | {"scores_by_env": [1]}), "not an object"),
        (response(CHAMPION | {"scores_by_env": {"E": {"score": "1"}}}), "not a finite number"),
        (response(CHAMPION | {"scores_by_env": {"E": {"score": 1e300}}}), "not a finite number"),
        (response(CHAMPION | {"scores_by_env": {"\x1b": {"score": 1}}}), "name of an environment"),
        (response(CHAMPION | {"scores_by_env": {"E": env(0.5, -4)}}), None),
    ],
)
def test_what_is_no_response(said, match):
    if match is None:
        assert np.isnan(parse_response(said, policy()).field.environments[0].variance).all()
        return
    with pytest.raises(BadInput, match=match):
        parse_response(said, policy())


@pytest.mark.parametrize("raw", [b"{", b'{"scores": NaN}', b'{"a":1,"a":2}', b"[" * 100_000])
def test_bytes_that_are_no_json(tmp_path, raw):
    (tmp_path / "s.json").write_bytes(raw)
    with pytest.raises(BadInput, match="not JSON"):
        read_response(tmp_path / "s.json", policy())
    with pytest.raises(Unavailable):
        read_response(tmp_path / "none.json", policy())


def test_a_mean_outside_the_declared_range_is_refused():
    ruled = policy("[environments.DISTILL]\nrange = [0, 1]")
    with pytest.raises(BadInput, match="outside the range"):
        parse_response(response(CHAMPION), ruled)
