"""Weights to a chain in memory, through bittensor's own client and intents."""

from __future__ import annotations

from typing import Any

import bittensor
import pytest
from bittensor.sp_core import Keypair

from attest.keys import ss58
from forensics.chain.fake import FakeSubstrate
from forensics.errors import ChainRefused, ChainUnavailable, UsageError
from forensics.scoring.setting import described, seated, send
from tests.forensics.client.world import address

NETUID = 120
PAIR = Keypair.create_from_uri("//validator")


class WeightsChain(FakeSubstrate):
    """A chain with seats that takes weights."""

    def __init__(self, *, commit_reveal: bool = False, limit: int = 65_535, **options: Any) -> None:
        super().__init__(**options)
        self.taken: list[tuple[str, dict[str, Any]]] = []
        self.keys = [PAIR.ss58_address, address("ada"), address("bob")]
        for uid, hotkey in enumerate(self.keys):
            self.put("SubtensorModule", "Keys", (NETUID, uid), hotkey)
            self.put("SubtensorModule", "Uids", (NETUID, hotkey), uid)
        self.put("SubtensorModule", "CommitRevealWeightsEnabled", (NETUID,), commit_reveal)
        self.put("SubtensorModule", "WeightsSetRateLimit", (NETUID,), 100)
        self.put("SubtensorModule", "LastUpdate", (NETUID,), [0, 0, 0])
        self.put("SubtensorModule", "MaxWeightsLimit", (NETUID,), limit)
        for item, value in {"Tempo": 360, "RevealPeriodEpochs": 1}.items():
            self.put("SubtensorModule", item, (NETUID,), value)

    async def submit(self, call: Any, keypair: Any, **_options: Any) -> Any:
        self._reach()
        if self.refuses:
            error = bittensor.ChainError("refused", self.refuses)
            return bittensor.ExtrinsicResult(success=False, message=error.message, error=error)
        self.taken.append((call.function, call.params))
        return bittensor.ExtrinsicResult(success=True, message="included")


def sent(chain: WeightsChain, by_hotkey: dict[str, float]) -> Any:
    return send(by_hotkey, burn_uid=0, netuid=NETUID, network="ws://fake", pair=PAIR, substrate=chain)


def test_weights_are_set_by_hotkey_and_the_rest_is_burned() -> None:
    chain = WeightsChain()
    found = sent(chain, {address("ada"): 0.25, address("bob"): 0.5})
    assert found.weights == {0: 0.25, 1: 0.25, 2: 0.5}
    ((function, params),) = chain.taken
    assert function == "set_mechanism_weights"
    assert (params["netuid"], params["dests"], params["weights"]) == (NETUID, [0, 1, 2], [32768, 32768, 65535])
    assert described(found) == "weights of 3 uids set"


def test_a_seat_that_changed_hands_pays_nobody_else() -> None:
    chain = WeightsChain()
    chain.put("SubtensorModule", "Keys", (NETUID, 2), address("newcomer"))
    found = sent(chain, {address("ada"): 0.25, address("bob"): 0.75})
    assert (found.weights, found.lost) == ({0: 0.75, 1: 0.25}, (address("bob"),))
    assert address("bob") in described(found)


def test_a_subnet_that_hides_weights_gets_a_timelocked_commit() -> None:
    chain = WeightsChain(commit_reveal=True)
    found = sent(chain, {address("ada"): 1.0})
    ((function, params),) = chain.taken
    assert function == "commit_timelocked_mechanism_weights"
    assert found.reveal_round == params["reveal_round"]
    assert "opens with round" in described(found)


def test_too_early_unregistered_and_refused() -> None:
    early = WeightsChain()
    early.put("SubtensorModule", "LastUpdate", (NETUID,), [early.height - 5, 0, 0])
    with pytest.raises(ChainRefused, match="rate limit"):
        sent(early, {address("ada"): 1.0})
    stranger = WeightsChain()
    stranger.put("SubtensorModule", "Uids", (NETUID, PAIR.ss58_address), None)
    with pytest.raises(ChainRefused, match="not registered"):
        sent(stranger, {address("ada"): 1.0})
    refusing = WeightsChain()
    refusing.refuses = "NeuronNoValidatorPermit"
    with pytest.raises(ChainRefused, match="NeuronNoValidatorPermit"):
        sent(refusing, {address("ada"): 1.0})
    assert early.taken + stranger.taken + refusing.taken == []


def test_no_node_and_no_network() -> None:
    chain = WeightsChain()
    chain.down = True
    with pytest.raises(ChainUnavailable, match="could not be set"):
        sent(chain, {address("ada"): 1.0})
    with pytest.raises(UsageError, match="network"):
        send({}, burn_uid=0, netuid=NETUID, network="nowhere at all", pair=PAIR, substrate=None)


def test_what_is_seated_adds_up_to_one() -> None:
    weights, lost = seated({"a": 0.5, "b": 0.25}, {"a": 0}, 0)
    assert (weights, lost) == ({0: 1.0}, ["b"])
    assert seated({}, {}, 3) == ({3: 1.0}, [])
    assert ss58.normalise(PAIR.ss58_address) == PAIR.ss58_address
