"""`forensics chain`: a subnet on the fake chain, read, recorded, played and reported by the command."""

from __future__ import annotations

import json

import pytest

from forensics.chain import subtensor
from forensics.chain.fake import FakeSubstrate
from forensics.chain.fake_subnet import FakeSubnet
from forensics.cli.main import main
from tests.forensics.chain.subnets import NETUID, model, who


@pytest.fixture
def substrate(monkeypatch, tmp_path) -> FakeSubstrate:
    """The chain that the command finds behind ws://fake."""
    monkeypatch.setenv("BTCLI_TOKEN_SYMBOLS_CACHE", str(tmp_path / "symbols.json"))
    substrate = FakeSubstrate()
    real = subtensor.bittensor.Client
    monkeypatch.setattr(subtensor.bittensor, "Client", lambda network, **_: real(network, substrate=substrate))
    monkeypatch.setenv("FORENSICS_GENESIS", substrate._blocks[0].hash)
    return substrate


@pytest.fixture
def fake(substrate) -> FakeSubnet:
    fake = FakeSubnet(substrate, NETUID)
    for name in ("ann", "ben", "cat"):
        fake.register(who(name), who(f"{name} cold"))
    fake.permit(1)
    fake.commit(who("ann"), model("a"))
    fake.commit(who("ben"), b"\x1b]0;hostile\x07")
    substrate.produce(4)
    return fake


SYNC = ["chain", "sync", "--netuid", str(NETUID), "--network", "ws://fake"]


def run(capsys, *arguments, code=0):
    assert main(list(arguments)) == code
    out, err = capsys.readouterr()
    return json.loads(out) if "--json" in arguments else out, err


def test_a_subnet_is_read_and_reported(fake, capsys):
    document, _ = run(capsys, *SYNC, "--json")
    assert (document["commits_new"], document["neurons_changed"], document["gaps"]) == (2, 3, [])
    status, _ = run(capsys, "chain", "status", "--netuid", str(NETUID), "--json")
    assert (status["neurons"], status["validators"], status["commits"]) == (3, 1, 2)
    assert status["standing"] == {"named": 1, "malformed_commitment": 1, "no_commitment": 1}
    assert status["hotkeys"][0]["repo"] == "org/a"
    assert status["hotkeys"][1]["reason"].startswith("malformed_commitment:")
    text, _ = run(capsys, "chain", "status", "--netuid", str(NETUID))
    assert "malformed_commitment" in text
    assert "\x1b" not in text


def test_a_recording_is_made_and_played_without_a_network(fake, substrate, capsys, tmp_path, monkeypatch):
    file = tmp_path / "subnet.json"
    _, talk = run(capsys, *SYNC, "--record", str(file))
    assert "recorded: 1 moments" in talk
    substrate.down = True
    monkeypatch.setenv("FORENSICS_HOME", str(tmp_path / "other"))
    document, _ = run(capsys, "chain", "sync", "--recording", str(file), "--json")
    assert (document["netuid"], document["commits_new"]) == (NETUID, 2)
    again, _ = run(capsys, "chain", "sync", "--recording", str(file), "--json")
    assert again["commits_new"] == 0


def test_a_node_that_is_away_is_exit_4_and_leaves_the_database_as_it_was(fake, substrate, capsys):
    run(capsys, *SYNC, "--json")
    substrate.down = True
    document, talk = run(capsys, *SYNC, "--json", code=4)
    assert document["error"]["code"] == "chain_unavailable"
    assert "no route to host" in talk
    assert run(capsys, "chain", "status", "--netuid", str(NETUID), "--json")[0]["commits"] == 2


def test_another_chain_is_exit_3(fake, capsys):
    document, _ = run(capsys, *SYNC, "--genesis", "0x" + "00" * 32, "--json", code=3)
    assert document["error"]["code"] == "chain_forked"


def test_following_goes_on_through_an_outage(fake, substrate, capsys, monkeypatch):
    waited = []

    def sleep(seconds):
        waited.append(seconds)
        substrate.down = len(waited) == 1
        substrate.produce()
        if len(waited) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("forensics.cli.chain.time.sleep", sleep)
    _, talk = run(capsys, *SYNC, "--follow", "--interval", "0", code=130)
    assert "late: ws://fake" in talk
    assert talk.count("block 1") >= 3
    assert waited[1] == 1.0


def test_a_late_service_is_exit_4_when_asked(fake, capsys):
    run(capsys, "chain", "status", "--netuid", str(NETUID), "--max-lag", "60", code=4)
    run(capsys, *SYNC)
    run(capsys, "chain", "status", "--netuid", str(NETUID), "--max-lag", "60")


def test_transfers_are_written_as_a_table(fake, substrate, capsys, tmp_path):
    substrate.produce()
    fake.transfer(who("ann"), who("ben"), 7)
    at = substrate.height
    substrate.produce(3)
    file = tmp_path / "t.csv"
    document, _ = run(
        capsys, *SYNC, "--transfers", str(file), "--from-block", str(at - 2), "--to-block", str(at), "--json"
    )
    assert document["rows"] == 1
    assert file.read_text() == f"from,to,count,amount,block\n{who('ann')},{who('ben')},1,7,{at}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["chain", "sync"],
        [*SYNC, "--follow", "--json"],
        [*SYNC, "--from-block", "5"],
        [*SYNC, "--transfers", "t.csv"],
        [*SYNC, "--recording", "x.json"],
        ["chain", "sync", "--netuid", "120", "--network", "nonesuch"],
        ["chain", "sync", "--netuid", "120", "--record", "/nowhere/x.json"],
        ["chain", "status", "--netuid", "70000"],
    ],
)
def test_what_makes_no_sense_is_exit_2(arguments, capsys):
    assert main(arguments) == 2


def test_a_recording_that_is_none_is_exit_3_and_an_absent_one_4(tmp_path, capsys):
    (tmp_path / "x.json").write_text("{}")
    assert main(["chain", "sync", "--recording", str(tmp_path / "x.json")]) == 3
    assert main(["chain", "sync", "--recording", str(tmp_path / "y.json")]) == 4
