"""A subnet on the fake chain, read into both databases: nothing missed, nothing twice, gaps said."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import select

from forensics.chain.fake import NETWORK, FakeSubstrate
from forensics.chain.fake_subnet import FakeSubnet
from forensics.chain.node import NodeReader
from forensics.chain.observed import Kind
from forensics.chain.subnet import Subnet
from forensics.chain.subtensor import Subtensor
from forensics.chain.sync import Syncer
from forensics.errors import ChainForked, ChainUnavailable
from forensics.store.chain import CommitRow, NeuronRow, SwapRow, SyncRow
from forensics.store.engine import reading, writing

from .subnets import NETUID, model, who


@pytest.fixture
def substrate() -> FakeSubstrate:
    return FakeSubstrate()


@pytest.fixture
def fake(substrate) -> FakeSubnet:
    fake = FakeSubnet(substrate, NETUID, size=4)
    for name in ("ann", "ben", "cat"):
        substrate.produce()
        fake.register(who(name), who(f"{name}'s coldkey"))
    fake.permit(2)
    fake.serve(who("ann"), "203.0.113.7:8091")
    substrate.produce(5)
    return fake


@pytest.fixture
def reader(connect, substrate) -> NodeReader:
    return NodeReader(connect(to=substrate))


@pytest.fixture
def syncer(engine, reader) -> Syncer:
    return Syncer(engine, reader, "0x" + reader.genesis().hex(), NETUID)


@pytest.fixture
def subnet(engine, reader) -> Subnet:
    return Subnet(engine, "0x" + reader.genesis().hex(), NETUID)


def read_on(syncer, substrate) -> list:
    substrate.produce(substrate.lag)
    return list(syncer.until_current())


def test_the_first_look_takes_neurons_and_commitments_with_their_places(fake, substrate, syncer, subnet):
    fake.commit(who("ann"), model("a"))
    fake.commit(who("ben"), model("b"))
    at = substrate.height
    substrate.produce()
    fake.seal_and_reveal(who("cat"), model("c"))
    opened = substrate.height
    (synced,) = read_on(syncer, substrate)
    assert (synced.block, synced.head, synced.behind) == (opened, opened + 3, 0)
    assert (synced.commits_new, synced.neurons_changed) == (3, 3)
    ann, ben, cat = subnet.neurons()
    assert (ann.uid, ann.hotkey, ann.coldkey) == (0, who("ann"), who("ann's coldkey"))
    assert (ann.registered, ann.endpoint, ann.permit) == (101, "203.0.113.7:8091", False)
    assert (cat.permit, cat.endpoint, ben.registrant) == (True, None, who("ben"))
    places = {(c.hotkey, c.block, c.extrinsic, c.data, c.kind) for c in subnet.commits()}
    assert places == {
        (who("ann"), at, 1, model("a"), Kind.PLAIN),
        (who("ben"), at, 2, model("b"), Kind.PLAIN),
        (who("cat"), opened, 0, model("c"), Kind.REVEALED),
    }
    assert subnet.block() == opened


def test_a_second_look_changes_nothing(fake, substrate, syncer, subnet, engine):
    fake.commit(who("ann"), model("a"))
    read_on(syncer, substrate)
    with reading(engine) as session:
        before = [session.scalars(select(t)).all() for t in (CommitRow, NeuronRow)]
    again = syncer.step()
    assert (again.commits_new, again.neurons_changed) == (0, 0)
    read_on(syncer, substrate)
    with reading(engine) as session:
        after = [session.scalars(select(t)).all() for t in (CommitRow, NeuronRow)]
    assert [[row.id for row in rows] for rows in before] == [[row.id for row in rows] for rows in after]


def test_what_was_overwritten_between_two_looks_is_read_from_the_blocks_between(fake, substrate, syncer, subnet):
    read_on(syncer, substrate)
    said = []
    for turn in range(15):
        substrate.produce()
        fake.commit(who("ann"), model(f"a{turn}"))
        said.append((substrate.height, model(f"a{turn}")))
    for turn in range(15):
        fake.seal_and_reveal(who("ben"), model(f"b{turn}"), blocks=1)
    read_on(syncer, substrate)
    assert [(c.block, c.data) for c in subnet.commits([who("ann")])] == said
    opened = [c for c in subnet.commits([who("ben")]) if c.kind is Kind.REVEALED]
    assert [c.data for c in opened] == [model(f"b{turn}") for turn in range(15)]
    assert all(c.bound == (c.block - 1, c.sealed_extrinsic) for c in opened)
    assert subnet.gaps() == ()


def test_reveals_of_one_block_tie_and_say_where_they_were_sealed(fake, substrate, syncer, subnet):
    read_on(syncer, substrate)
    substrate.produce()
    fake.seal(who("cat"))
    first = substrate.height
    substrate.produce()
    fake.seal(who("ann"))
    substrate.produce()
    fake.reveal(who("ann"), model("x"))
    fake.reveal(who("cat"), model("x"))
    read_on(syncer, substrate)
    ann, cat = (next(c for c in subnet.commits([who(n)]) if c.kind is Kind.REVEALED) for n in ("ann", "cat"))
    assert (ann.block, ann.extrinsic) == (cat.block, cat.extrinsic) == (first + 2, 0)
    assert cat.bound == (first, 1)
    assert ann.bound == (first + 1, 1)


def test_a_recycled_uid_closes_one_time_and_opens_the_next(fake, substrate, syncer, subnet):
    fake.register(who("dan"), who("dan's coldkey"))
    read_on(syncer, substrate)
    substrate.produce(3)
    fake.register(who("eve"), who("eve's coldkey"))  # all four uids are taken: ann's is the oldest
    taken = substrate.height
    read_on(syncer, substrate)
    assert subnet.neurons()[0].hotkey == who("eve")
    ((neuron, since, until),) = subnet.times(who("ann"))
    assert (neuron.uid, since, until) == (0, 101, taken)
    ((_, since, until),) = subnet.times(who("eve"))
    assert (since, until) == (taken, None)
    assert subnet.swaps() == ()


def test_who_came_and_went_between_two_looks_is_not_forgotten(fake, substrate, syncer, subnet):
    fake.register(who("dan"), who("dan's coldkey"))
    read_on(syncer, substrate)
    came = []
    for name in ("eve", "fay", "gus", "hal", "ida"):  # ida takes the uid that eve was given
        substrate.produce()
        fake.register(who(name), who(f"{name}'s coldkey"))
        fake.commit(who(name), model(name))
        came.append(substrate.height)
    read_on(syncer, substrate)
    ((neuron, since, until),) = subnet.times(who("eve"))
    assert (neuron.uid, since, until) == (0, came[0], came[4])
    assert [c.data for c in subnet.commits([who("eve")])] == [model("eve")]
    assert {n.hotkey for n in subnet.neurons()} == {who(n) for n in ("fay", "gus", "hal", "ida")}


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_hotkey_swap_is_seen_and_the_registrant_stays_known(fake, substrate, syncer, subnet, everywhere):
    read_on(syncer, substrate)
    substrate.produce()
    fake.swap(who("ann"), who("new"), everywhere=everywhere)
    at = substrate.height
    read_on(syncer, substrate)
    (swap,) = subnet.swaps()
    assert (swap.old, swap.new, swap.block, swap.extrinsic, swap.exact) == (who("ann"), who("new"), at, 1, True)
    neuron = subnet.neurons()[0]
    assert (neuron.hotkey, neuron.registrant, neuron.registered) == (who("new"), who("ann"), 101)
    assert subnet.times(who("ann"))[0][2] == at == subnet.times(who("new"))[0][1]


def test_swaps_elsewhere_are_not_ours(fake, substrate, syncer, subnet):
    read_on(syncer, substrate)
    other = FakeSubnet(substrate, NETUID + 1)
    substrate.produce()
    other.register(who("zed"), who("zed's coldkey"))
    other.swap(who("zed"), who("yan"), everywhere=True)
    other.commit(who("yan"), model("z"))
    read_on(syncer, substrate)
    assert (subnet.swaps(), len(subnet.neurons()), subnet.commits()) == ((), 3, ())


def test_a_new_owner_begins_a_new_time(fake, substrate, syncer, subnet):
    read_on(syncer, substrate)
    substrate.produce()
    fake.own(who("ann"), who("buyer"))
    read_on(syncer, substrate)
    first, second = subnet.times(who("ann"))
    assert (first[0].coldkey, second[0].coldkey) == (who("ann's coldkey"), who("buyer"))
    assert first[2] == second[1]


def test_blocks_that_are_not_final_never_enter(fake, substrate, syncer, subnet):
    read_on(syncer, substrate)
    substrate.produce()
    fake.commit(who("ann"), model("reorganised away"))
    at = substrate.height
    substrate.produce()
    assert syncer.step().commits_new == 0
    substrate.reorganise(at)
    fake.commit(who("ann"), model("kept"))
    read_on(syncer, substrate)
    assert [c.data for c in subnet.commits()] == [model("kept")]


def test_a_chain_whose_final_blocks_changed_is_refused(fake, substrate, syncer, subnet):
    read_on(syncer, substrate)
    substrate.reorganise(substrate.height - 8)
    substrate.produce()
    with pytest.raises(ChainForked, match="final block"):
        syncer.step()


def test_another_chain_is_refused(engine, connect, subnet):
    other = NodeReader(connect(to=FakeSubstrate(name="other")))
    with pytest.raises(ChainForked, match="another chain"):
        Syncer(engine, other, subnet.genesis, NETUID).step()


def test_a_node_that_is_away_changes_nothing_and_is_asked_again(fake, substrate, syncer, subnet):
    read_on(syncer, substrate)
    fake.commit(who("ann"), model("a"))
    substrate.produce(4)
    substrate.down = True
    with pytest.raises(ChainUnavailable, match="no route"):
        syncer.step()
    assert subnet.commits() == ()
    substrate.down = False
    read_on(syncer, substrate)
    assert len(subnet.commits()) == 1


def test_away_too_long_is_a_gap_that_names_who_may_have_lost_reveals(fake, substrate, engine, reader, subnet):
    syncer = Syncer(engine, reader, subnet.genesis, NETUID, reach=1000)
    fake.seal_and_reveal(who("cat"), model("c"))
    read_on(syncer, substrate)
    was = subnet.block()
    for turn in range(14):
        fake.seal_and_reveal(who("ann"), model(f"a{turn}"), blocks=1)
    substrate.produce(10_000)
    steps = read_on(syncer, substrate)
    assert steps[0].gap.first == was + 1
    (gap,) = subnet.gaps()
    assert (gap.first, gap.last, gap.hotkeys) == (was + 1, subnet.block(), (who("ann"),))
    assert len(subnet.commits([who("ann")])) == 10
    assert [gap] == list(Subnet(engine, subnet.genesis, NETUID).gaps())


def test_a_node_that_forgot_leaves_a_gap_of_what_it_forgot_and_no_more(fake, substrate, syncer, subnet):
    read_on(syncer, substrate)
    was = subnet.block()
    substrate.produce(20)
    fake.commit(who("ann"), model("lost"))
    substrate.produce(20)
    kept = substrate.height
    substrate.produce(2)
    fake.commit(who("ann"), model("seen"))
    fake.swap(who("ben"), who("new"))
    substrate.prune(kept)
    read_on(syncer, substrate)
    (gap,) = subnet.gaps()
    assert (gap.first, gap.last) == (was + 1, kept - 1)
    assert [c.data for c in subnet.commits()] == [model("seen")]
    assert [swap.exact for swap in subnet.swaps()] == [True]


def test_a_swap_in_a_gap_is_known_by_its_effect(fake, substrate, engine, reader, subnet):
    syncer = Syncer(engine, reader, subnet.genesis, NETUID, reach=10)
    read_on(syncer, substrate)
    fake.swap(who("ben"), who("new"))
    substrate.produce(50)
    read_on(syncer, substrate)
    (swap,) = subnet.swaps()
    assert (swap.old, swap.new, swap.exact) == (who("ben"), who("new"), False)
    assert len(subnet.neurons()) == 3


def test_an_address_of_another_prefix_is_the_same_account(fake, substrate, syncer, subnet):
    from attest.keys import ss58

    foreign = ss58.encode(ss58.account_id(who("ann")), prefix=0)
    fake.commit(foreign, model("a"))
    read_on(syncer, substrate)
    assert [c.hotkey for c in subnet.commits()] == [who("ann")]


def test_two_syncers_at_once_write_everything_once(fake, substrate, engine, subnet):
    for name in ("ann", "ben", "cat"):
        fake.commit(who(name), model(name))
    substrate.produce(4)
    failures: list[Exception] = []

    def run() -> None:
        node = Subtensor(NETWORK, substrate=substrate)
        try:
            for _ in Syncer(engine, NodeReader(node), subnet.genesis, NETUID, stride=1).until_current():
                pass
        except Exception as error:
            failures.append(error)
        finally:
            node.close()

    for turn in range(3):
        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fake.commit(who("ann"), model(f"again {turn}"))
        substrate.produce(5)
    assert failures == []
    assert len(subnet.neurons()) == 3
    assert len(subnet.commits()) == 3 + 2
    with reading(engine) as session:
        assert len(session.scalars(select(NeuronRow)).all()) == 3


def test_a_crash_between_looking_and_writing_is_repeated(fake, substrate, syncer, subnet, engine, monkeypatch):
    from forensics.chain import writing_down

    read_on(syncer, substrate)
    fake.commit(who("ann"), model("a"))
    fake.swap(who("ben"), who("new"))
    substrate.produce(4)
    progress = writing_down.Book._progress

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(writing_down.Book, "_progress", killed)
    with pytest.raises(KeyboardInterrupt):
        syncer.step()
    assert (subnet.commits(), subnet.swaps()) == ((), ())
    monkeypatch.setattr(writing_down.Book, "_progress", progress)
    syncer.step()
    assert (len(subnet.commits()), len(subnet.swaps())) == (1, 1)


def test_a_place_that_was_not_known_is_filled_in_later(fake, substrate, syncer, subnet, engine, connect):
    fake.commit(who("ann"), model("a"))
    at = substrate.height
    fake.commit(who("ben"), model("b"))
    substrate.produce(10)
    substrate.prune(at + 1)
    read_on(syncer, substrate)
    assert [(c.extrinsic, c.exact) for c in subnet.commits()] == [(0, False), (0, False)]
    substrate.prune(0)
    substrate.produce()
    read_on(syncer, substrate)
    assert [(c.extrinsic, c.exact) for c in subnet.commits()] == [(1, True), (2, True)]


def test_nothing_of_another_chain_is_touched(fake, substrate, syncer, subnet, engine):
    read_on(syncer, substrate)
    with writing(engine) as session:
        row = session.get(SyncRow, (subnet.genesis, NETUID))
        session.add(
            SyncRow(
                genesis="0x" + "00" * 32,
                netuid=NETUID,
                started=1,
                block=5,
                block_hash="0x",
                head=5,
                synced_at=row.synced_at,
            )
        )
    substrate.produce()
    read_on(syncer, substrate)
    assert Subnet(engine, "0x" + "00" * 32, NETUID).block() == 5
    with reading(engine) as session:
        assert session.scalars(select(SwapRow)).all() == []
