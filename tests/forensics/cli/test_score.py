"""``forensics score`` as it is typed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import httpx2
import numpy as np
import pytest

from tests.forensics.client.world import address, key, revision, signed, signer, verdict, verdicts
from tests.forensics.scoring.fields import HEADER, bernoulli, rows, write
from tests.forensics.scoring.test_affine import BETTER, CHAMPION, response

NAMES = ("ada", "bob", "eve")


def table(folder, *, uid: bool = False):
    field = bernoulli(np.random.default_rng(1), np.array([0.3, 0.6, 0.6]), width=2, questions=200)
    place = {f"miner-{i:03d}": i for i in range(3)}
    made = []
    for hotkey, _, block, extrinsic, *rest in rows(field):
        name = NAMES[place[str(hotkey)]]
        made.append(
            (address(name), revision(name), block, extrinsic, *rest, *([place[str(hotkey)] + 7] if uid else []))
        )
    return write(folder / "scores.csv", made, (*HEADER, "uid") if uid else HEADER)


@pytest.fixture
def scores(tmp_path):
    return table(tmp_path)


@pytest.fixture
def snapshot(tmp_path):
    path = tmp_path / "snapshot.json"
    entries = (verdict(0, "ada"), verdict(1, "bob", "0.25"), verdict(2, "eve"))
    path.write_bytes(signed(verdicts(*entries, at=datetime.now(UTC))))
    return path


def test_scores_alone(run, json_of, scores):
    code, out, err = run("score", scores)
    assert (code, err) == (0, "")
    assert "took the crown from" in out
    assert "note: no verdicts" in out
    said = json_of("score", scores)
    assert (said["weights_by"], said["weights"]) == ("hotkey", {address("bob"): {"weight": 1.0}})
    assert [model["standing"] for model in said["models"]] == ["dethroned", "crown", "held"]


def test_uids_in_the_table(json_of, tmp_path):
    assert json_of("score", table(tmp_path, uid=True))["weights"] == {"8": {"weight": 1.0}}


def test_with_a_snapshot(json_of, scores, snapshot, tmp_path):
    (tmp_path / "key").write_text(key() + "\n")
    for given in (key(), tmp_path / "key"):
        said = json_of("score", scores, "--verdicts", snapshot, "--service-key", given)
        assert said["weights"] == {"0": {"weight": 0.75}, "1": {"weight": 0.25}}
        assert said["verdicts"]["snapshot"]["sequence"] == 1


def test_a_snapshot_that_is_not_believed_is_refused(run, scores, snapshot, tmp_path):
    def refused(*options: object, match: str) -> None:
        code, _, err = run("score", scores, "--verdicts", snapshot, *options)
        assert code == 3
        assert match in err

    refused("--service-key", key("mallory"), match="wrong_key")
    refused("--service-key", key(), "--netuid", 7, match="wrong_netuid")
    refused("--service-key", key(), "--genesis", "0x" + "1" * 64, match="wrong_chain")
    snapshot.write_bytes(signed(verdicts(at=datetime.now(UTC)), by=signer("mallory")))
    refused("--service-key", key(), match="bad_signature")
    snapshot.write_bytes(signed(verdicts(at=datetime.now(UTC) - timedelta(hours=2))))
    refused("--service-key", key(), match="expired")
    snapshot.write_bytes(b"{}")
    refused("--service-key", key(), match="payload")


def test_from_a_service(run, json_of, scores, monkeypatch, tmp_path):
    entries = (verdict(0, "ada"), verdict(1, "bob", "0.5"), verdict(2, "eve"))
    body, up = signed(verdicts(*entries, at=datetime.now(UTC))), [True]

    async def answer(self, request):
        if not up[0]:
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200, content=body)

    monkeypatch.setattr("httpx2.AsyncHTTPTransport.handle_async_request", answer)
    monkeypatch.setattr("forensics.client.clients.PAUSE", 0)
    monkeypatch.setenv("FORENSICS_HOME", str(tmp_path / "home"))
    asked = ("score", scores, "--url", "http://127.0.0.1:1", "--service-key", key(), "--netuid", 120)
    said = json_of(*asked)
    assert (said["verdicts"]["state"], said["weights"]["1"]) == ("fresh", {"weight": 0.5})
    up[0] = False
    code, out, err = run(*asked, "--json")
    assert (code, json.loads(out)["verdicts"]["state"]) == (0, "cached")
    assert "unreachable" in err


def test_affine_by_its_first_byte_and_by_option(run, json_of, tmp_path):
    path = tmp_path / "scores"
    path.write_text(json.dumps(response(CHAMPION, BETTER)))
    said = json_of("score", path)
    assert said["block_number"] == 8_512_345
    assert said["weights"] == {"4": {"weight": 1.0}}
    assert json_of("score", path, "--affine")["weights"] == said["weights"]
    assert run("score", path, "--table")[0] == 3


def test_a_policy_of_ones_own(json_of, scores, tmp_path, snapshot):
    from forensics.scoring import policy

    text = (policy.files("forensics.scoring") / "default.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(text.replace('"winner-takes-all"', '"decayed"').replace('withheld = "burn"', 'withheld = "share"'))
    said = json_of("score", scores, "--policy", path)
    assert said["config"]["digest"] == policy.load(path).digest != policy.default().digest


def test_an_alarm_is_a_finding(run, json_of, scores, snapshot):
    snapshot.write_bytes(signed(verdicts(verdict(0, "ada"), at=datetime.now(UTC))))
    options = ("score", scores, "--verdicts", snapshot, "--service-key", key())
    assert json_of(*options, code=1)["alarms"][0]["code"] == "weight_lost"
    assert "alarm: weight_lost" in run(*options)[2]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--url", "http://127.0.0.1:1"], "whose verdicts"),
        (["--url", "http://127.0.0.1:1", "--service-key", key()], "which subnet"),
        (["--service-key", key()], "nothing it signed"),
        (["--verdicts", "a", "--url", "b", "--service-key", key()], "not both"),
        (["--url", "nowhere", "--service-key", key(), "--netuid", "1"], "URL"),
        (["--verdicts", "SNAPSHOT", "--service-key", "nonsense"], "not a service key"),
        (["--set-weights", "wallet"], "which subnet"),
    ],
)
def test_what_makes_no_sense(run, scores, snapshot, options, match):
    given = [str(snapshot) if option == "SNAPSHOT" else option for option in options]
    code, _, err = run("score", scores, *given)
    assert code == 2
    assert match in err


def test_files_that_are_not_there(run, scores, tmp_path):
    assert run("score", tmp_path / "none.csv")[0] == 4
    assert run("score", scores, "--policy", tmp_path / "none.toml")[0] == 4
    assert run("score", scores, "--verdicts", tmp_path / "none", "--service-key", key())[0] == 4


def test_hotkeys_cannot_write_to_the_terminal(run, tmp_path):
    path = write(tmp_path / "t.csv", [("a\u202eb", "r", 1, 0, "E", "q", 1)])
    code, out, err = run("score", path)
    assert code == 3
    assert "\u202e" not in out + err
