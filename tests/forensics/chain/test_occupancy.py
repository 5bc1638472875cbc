"""Times on uids, followed through registrations and swaps, or told from the state alone."""

from __future__ import annotations

from datetime import UTC, datetime

from forensics.chain.interface import Block
from forensics.chain.observed import Happenings, Neuron, Registered, SubnetState, Swap
from forensics.chain.occupancy import Time, follow

AT = 100


def state(*neurons: Neuron) -> SubnetState:
    return SubnetState(Block(AT, bytes(32), datetime(2026, 11, 30, tzinfo=UTC)), neurons, ())


def neuron(hotkey="a", registered=10, coldkey="cold") -> Neuron:
    return Neuron(0, hotkey, coldkey, registered, registrant=hotkey)


OPEN = {0: Time(neuron(), 10)}


def test_what_goes_on_goes_on():
    found = follow(OPEN, [], state(neuron()))
    assert (found.ended, found.begun, found.changed) == ({}, [], 0)
    assert found.lasting == {0: neuron()}


def test_registered_and_swapped_at_once_leaves_both_times():
    happened = [Happenings(registered=(Registered(0, "b", 50, 1),)), Happenings(swaps=(Swap("b", "c", 60, 1),))]
    found = follow(OPEN, happened, state(neuron("c", 50)))
    assert found.ended == {0: 50}
    assert [(t.neuron.hotkey, t.since, t.until) for t in found.begun] == [("b", 50, 60), ("c", 60, None)]
    assert found.changed == 1


def test_order_within_a_block_counts():
    block = Happenings(registered=(Registered(0, "b", 50, 2),), swaps=(Swap("a", "x", 50, 1), Swap("b", "y", 50, 3)))
    found = follow(OPEN, [block], state(neuron("y", 50)))
    assert found.ended == {0: 50}
    assert [(t.neuron.hotkey, t.since, t.until) for t in found.begun] == [("y", 50, None)]


def test_without_events_the_state_says_what_must_have_happened():
    recycled = follow(OPEN, [], state(neuron("b", 70)))
    assert (recycled.ended, recycled.begun[0].since) == ({0: 70}, 70)
    swapped = follow(OPEN, [], state(neuron("b", 10)))
    assert (swapped.ended, swapped.begun[0].since) == ({0: AT}, AT)
    gone = follow(OPEN, [], state())
    assert (gone.ended, gone.begun) == ({0: AT}, [])
    bought = follow(OPEN, [], state(neuron(coldkey="buyer")))
    assert (bought.ended, bought.begun[0].since) == ({0: AT}, AT)


def test_the_first_look_knows_when_a_registrant_came_and_not_when_a_successor_did():
    assert follow({}, [], state(neuron())).begun == [Time(neuron(), 10)]
    successor = Neuron(0, "b", "cold", 10, registrant="a")
    assert follow({}, [], state(successor)).begun == [Time(successor, AT)]
