from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.seeds.beacon import QUICKNET
from attest.seeds.verify import ANCHOR_MARGIN
from forensics.epochs.machine import FINAL, LATE, MISSED, UNANCHORED, Change, Facts, Moment, State, next_change

MIX = 30_000_000
DUE = QUICKNET.time_of(MIX)
BEFORE, AFTER = Moment(1, DUE - 1), Moment(2, DUE)


def after(state: State, **facts) -> Change | None:
    parts = {"moment": BEFORE} | facts
    return next_change(state, mix_round=MIX, network=QUICKNET, facts=Facts(**parts))


@pytest.mark.parametrize(
    ("state", "facts", "expected"),
    [
        (State.COMMITTED, {}, None),
        (State.COMMITTED, {"moment": AFTER}, None),
        (State.COMMITTED, {"anchored_at": DUE - ANCHOR_MARGIN}, Change(State.ANCHORED)),
        (State.COMMITTED, {"anchored_at": DUE - ANCHOR_MARGIN, "mixed": True}, Change(State.ANCHORED)),
        (State.COMMITTED, {"anchored_at": DUE - ANCHOR_MARGIN + 1}, Change(State.VOID, LATE)),
        (State.COMMITTED, {"anchored_at": DUE}, Change(State.VOID, LATE)),
        (State.COMMITTED, {"mixed": True}, Change(State.VOID, UNANCHORED)),
        (State.ANCHORED, {}, None),
        (State.ANCHORED, {"moment": AFTER}, Change(State.MIXING)),
        (State.ANCHORED, {"mixed": True}, Change(State.MIXING)),
        (State.MIXING, {"moment": AFTER}, None),
        (State.MIXING, {"moment": AFTER, "mixed": True}, Change(State.OPEN)),
        (State.MIXING, {"moment": AFTER, "mixed": True, "opened": True}, Change(State.VOID, MISSED)),
        (State.OPEN, {"moment": Moment(9, DUE + 10**9), "mixed": True}, None),
        (State.OPEN, {"opened": True}, Change(State.CLOSED)),
        (State.CLOSED, {}, Change(State.REVEALED)),
        (State.REVEALED, {"moment": AFTER, "mixed": True, "opened": True}, None),
        (State.VOID, {"moment": AFTER, "mixed": True, "opened": True, "anchored_at": 0}, None),
    ],
)
def test_what_follows(state, facts, expected):
    assert after(state, **facts) == expected


@given(st.sampled_from(State), st.integers(-(10**12), 10**12))
def test_no_clock_opens_closes_reveals_or_voids(state, offset):
    """Time alone, however wrong, leads at most to mixing (a closed state was closed on the beacon before)."""
    change = after(state, moment=Moment(1, DUE + offset))
    assert change is None or change.state is State.MIXING or state is State.CLOSED


ORDER = [State.COMMITTED, State.ANCHORED, State.MIXING, State.OPEN, State.CLOSED, State.REVEALED]


@given(st.lists(st.tuples(st.integers(-1000, 1000), st.booleans(), st.booleans(), st.booleans()), max_size=30))
def test_a_life_goes_forward_and_ends_once(turns):
    state, seen = State.COMMITTED, []
    mixed = opened = False
    for offset, anchored, mixes, opens in turns:
        mixed, opened = mixed or mixes, opened or (mixed and opens)
        moment = Moment(1, DUE + offset)
        anchored_at = DUE - 100 if anchored else None
        change = after(state, moment=moment, anchored_at=anchored_at, mixed=mixed, opened=opened)
        if change is None:
            continue
        if change.state is not State.VOID:
            assert ORDER.index(change.state) == ORDER.index(state) + 1
        assert state not in FINAL
        assert change.state is not State.OPEN or mixed
        assert change.state is not State.CLOSED or opened
        state = change.state
        seen.append(state)
    assert len(set(seen)) == len(seen)
