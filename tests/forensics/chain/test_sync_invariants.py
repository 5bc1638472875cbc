"""However often one looks, the same is known in the end; and no answer of a node raises anything unforeseen."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from forensics.chain import decoding_subnet as decode
from forensics.chain.fake import NETWORK, FakeSubstrate
from forensics.chain.fake_subnet import FakeSubnet, compact, decoded
from forensics.chain.node import NodeReader
from forensics.chain.subnet import Subnet
from forensics.chain.subtensor import Subtensor
from forensics.chain.sync import Syncer
from forensics.errors import ChainUnavailable
from forensics.store.chain import CommitRow, GapRow, NeuronRow, SwapRow, SyncRow
from forensics.store.engine import connect
from forensics.store.migrate import ensure

from .subnets import NETUID, model, who

NAMES = [who(f"miner {number}") for number in range(6)]
ACTIONS = st.one_of(
    st.tuples(st.just("register"), st.sampled_from(NAMES)),
    st.tuples(st.just("commit"), st.sampled_from(NAMES), st.integers(0, 3)),
    st.tuples(st.just("reveal"), st.sampled_from(NAMES), st.integers(0, 3)),
    st.tuples(st.just("swap"), st.sampled_from(NAMES), st.sampled_from(NAMES), st.booleans()),
    st.tuples(st.just("wait"), st.integers(1, 4)),
    st.tuples(st.just("look"), st.integers(1, 5)),
    st.tuples(st.just("reorganise"), st.just(0)),
)


class Drive:
    """A subnet of three uids; whoever may not do something does not."""

    def __init__(self) -> None:
        self.substrate = FakeSubstrate()
        self.fake = FakeSubnet(self.substrate, NETUID, size=3)
        self.sealed: set[str] = set()

    def here(self, hotkey: str) -> bool:
        return any(self.fake.hotkey(uid) == hotkey for uid in range(3))

    def act(self, action: tuple) -> None:
        kind, who_, *more = action
        if kind == "wait":
            self.substrate.produce(who_)
        elif kind == "reorganise":
            self.substrate.reorganise(self.substrate.height)  # the head is never final
        elif kind == "register" and not self.here(who_):
            self.fake.register(who_, who("cold"))
            self.sealed &= {hotkey for hotkey in self.sealed if self.here(hotkey)}
        elif kind == "commit" and self.here(who_):
            self.fake.commit(who_, model(f"m{more[0]}"))
            self.sealed.discard(who_)
        elif kind == "reveal" and self.here(who_):
            self.fake.seal_and_reveal(who_, model(f"s{more[0]}"), blocks=1)
        elif kind == "swap" and self.here(who_) and not self.here(more[0]):
            self.fake.swap(who_, more[0], everywhere=more[1])
        if kind not in ("wait", "look"):
            self.substrate.produce()


def known(subnet: Subnet) -> tuple:
    times = {(n.uid, n.hotkey, n.registered, since, until) for h in NAMES for n, since, until in subnet.times(h)}
    now = [(n.uid, n.hotkey, n.coldkey, n.registered, n.registrant) for n in subnet.neurons()]
    return now, subnet.commits(), subnet.swaps(), times, subnet.gaps()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("looks")


@pytest.fixture(autouse=True, scope="module")
def no_shared_symbols(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BTCLI_TOKEN_SYMBOLS_CACHE", str(folder / "symbols.json"))
        yield


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=st.lists(ACTIONS, max_size=15), stride=st.integers(1, 7))
def test_what_is_known_does_not_depend_on_when_one_looked(folder, actions, stride):
    drive = Drive()
    node = Subtensor(NETWORK, substrate=drive.substrate)
    engines = [connect(f"sqlite:///{folder / name}") for name in ("often.db", "rarely.db")]
    try:
        reader = NodeReader(node)
        genesis = "0x" + reader.genesis().hex()
        for engine in engines:
            ensure(engine)
            wipe(engine)
        often, rarely = (
            Syncer(e, reader, genesis, NETUID, stride=s) for e, s in zip(engines, (1, stride), strict=True)
        )
        for syncer in (often, rarely):
            syncer.step()
        for action in actions:
            drive.act(action)
            for _ in often.until_current():
                pass
            if action[0] == "look":
                rarely.step()
        drive.substrate.produce(drive.substrate.lag + 1)
        for syncer in (often, rarely):
            for _ in syncer.until_current():
                pass
        assert known(Subnet(engines[0], genesis, NETUID)) == known(Subnet(engines[1], genesis, NETUID))
    finally:
        node.close()
        for engine in engines:
            engine.dispose()


def wipe(engine) -> None:
    with engine.begin() as connection:
        for row in (SyncRow, NeuronRow, CommitRow, SwapRow, GapRow):
            connection.execute(delete(row))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(NAMES[0]) | st.just(NETUID),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["who", "netuid", "from", "ip"]), inner)
    ),
    max_leaves=8,
)
EVENTS = st.fixed_dictionaries(
    {
        "extrinsic_idx": st.none() | st.integers(0, 9) | JSON,
        "event": st.fixed_dictionaries(
            {
                "module_id": st.sampled_from(["Commitments", "SubtensorModule", "Balances"]),
                "event_id": st.sampled_from(
                    ["Commitment", "CommitmentRevealed", "HotkeySwapped", "NeuronRegistered", "Transfer"]
                ),
                "attributes": JSON,
            }
        )
        | JSON,
    }
)


@settings(deadline=None)
@given(events=st.lists(EVENTS, max_size=4), value=JSON)
def test_no_answer_of_a_node_raises_anything_but_that_it_is_unusable(events, value):
    asks = (
        lambda: decode.touched(decode.happened(events), NETUID),
        lambda: decode.swaps(decode.happened(events), NETUID, 1),
        lambda: decode.registrations(decode.happened(events), NETUID, 1),
        lambda: decode.transfers(decode.happened(events), 1),
        lambda: decode.revealed(NAMES[0], value),
        lambda: decode.address(value),
        lambda: decode.endpoint(value),
    )
    for ask in asks:
        with contextlib.suppress(ChainUnavailable):
            ask()


@settings(deadline=None)
@given(st.binary(max_size=1024))
def test_what_was_sealed_comes_back_with_or_without_its_length(data):
    assert decode.plaintext(decoded(compact(len(data)) + data)) == data
    assert decode.plaintext(compact(len(data)) + data) == data


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"model": "a/b"}', b"\xff\xff\xff\xff", b"\x03", b"\x01", "0xzz"])
def test_a_plaintext_without_a_length_stays_as_it_is(raw):
    assert decode.plaintext(raw) == (raw.encode() if isinstance(raw, str) else raw)
