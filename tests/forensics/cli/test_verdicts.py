"""``forensics verdicts`` as it is typed: from this home, and from a service."""

from __future__ import annotations

import pytest

from forensics.keys import Keys
from forensics.place import GENESIS
from forensics.policy import default
from forensics.settings import load
from forensics.snapshots import Publisher
from forensics.verdicts import Verdicts
from tests.forensics.client.test_service import seats
from tests.forensics.client.world import NETUID, address, key
from tests.forensics.serving import served


@pytest.fixture
def home(own_home):
    """This home runs a service that published a snapshot of two hotkeys without commitments."""
    settings = load(home=own_home)
    with served(settings) as (services, url):
        signer = Keys.of(settings).service()
        judging = Verdicts(services.engine, services.blobs, policy=default())
        publisher = Publisher(
            services.engine,
            services.log,
            signer,
            verdicts=judging,
            policy=default(),
            network="finney",
            genesis=GENESIS["finney"],
        )
        publisher.publish(NETUID, 100, seats("ada", "bob"))
        yield services, url


def test_of_this_home(run, json_of, home):
    code, out, err = run("verdicts", "--netuid", NETUID)
    assert (code, err) == (0, "")
    assert address("ada") in out
    assert "no_commitment" in out
    said = json_of("verdicts", "--netuid", NETUID)
    assert (said["state"], said["snapshot"]["sequence"]) == ("fresh", 1)
    assert [entry["uid"] for entry in said["verdicts"]] == [0, 1]
    assert said["verdicts"][0]["multiplier"] == "1.0"


def test_of_a_service(run, json_of, home, tmp_path):
    services, url = home
    given = ("verdicts", "--netuid", NETUID, "--url", url, "--service-key", services.log_key)
    assert json_of(*given)["verdicts"][1]["hotkey"] == address("bob")
    code, _, err = run("verdicts", "--netuid", NETUID, "--url", url, "--service-key", key("mallory"))
    assert code == 3
    assert "wrong_key" in err
    assert run("verdicts", "--netuid", NETUID, "--url", url)[0] == 2


def test_nothing_to_go_by(run, json_of):
    said = json_of("verdicts", "--netuid", 7, code=4)
    assert (said["state"], said["verdicts"]) == ("neutral", [])
    code, out, err = run("verdicts", "--netuid", 7)
    assert code == 4
    assert "every multiplier is 1" in out
    assert "nothing_yet" in err
