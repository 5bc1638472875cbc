"""That a snapshot is in the service's log, from a receipt alone."""

from __future__ import annotations

import pytest

from attest import envelope as dsse
from attest.log.log import Log
from forensics.attestations.record import leaf_of
from forensics.client import Code, Refused
from tests.attest.log.memory import MemoryLog
from tests.forensics.client.world import World, address, signer, verdict


def receipt(log: Log, index: int) -> bytes:
    log.checkpoint()
    return log.prove(index).encode()


@pytest.mark.parametrize("uids", [3, 256], ids=["whole in the log", "by its digest, too long for a leaf"])
def test_a_receipt_shows_the_snapshot_and_no_other(world: World, uids: int) -> None:
    log = Log(MemoryLog(), signer(), origin="log.example")
    entries = [verdict(uid, f"miner {uid}", "0.5") for uid in range(uids)]
    first = dsse.read(world.publish(1, *entries))
    second = dsse.read(world.publish(2, *entries))
    leaves = [leaf_of(first), leaf_of(second)]
    assert log.append(leaves) == [0, 1]
    client = world.client()
    with pytest.raises(Refused, match="nothing_yet"):
        client.check_logged(receipt(log, 1))
    client.read()
    assert client.check_logged(receipt(log, 1)) == 1
    with pytest.raises(Refused) as refused:
        client.check_logged(receipt(log, 0))
    assert refused.value.code is Code.NOT_LOGGED


def test_a_receipt_of_another_log_or_a_damaged_one_shows_nothing(world: World) -> None:
    other = Log(MemoryLog(), signer("mallory"), origin="log.example")
    leaf = leaf_of(dsse.read(world.publish(1, verdict(0, "ada"))))
    other.append([leaf])
    client = world.client()
    assert client.read().multiplier(address("ada"), None).known is False
    for bad in (receipt(other, 0), b"", b"c2sp.org/tlog-proof@v1\n\n"):
        with pytest.raises(Refused, match="not_logged"):
            client.check_logged(bad)
