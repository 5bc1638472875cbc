"""Who was first: a table of cases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.errors import ContextMismatch, MalformedInput
from attest.keys.hotkey import Hotkey
from attest.priority import Binding, By, Claim, Position, Standing, effective, rank
from tests.attest.material import COLD, GENESIS, MINER, RIVAL, digest, hotkey

FIRST, LATER, TIE, SAME, NEVER = (
    Standing.FIRST,
    Standing.LATER,
    Standing.TIE,
    Standing.SAME_OWNER,
    Standing.UNANCHORED,
)
WHO = {"miner": MINER, "rival": RIVAL, "cold": COLD}


def attested(block: int, extrinsic: int = 0) -> Binding:
    return Binding(Position(block, extrinsic), By.ATTESTATION, digest("anchor"))


def committed(block: int, extrinsic: int = 0) -> Binding:
    return Binding(Position(block, extrinsic), By.COMMITMENT, "a" * 40)


def claim(name: str, *bindings: Binding) -> Claim:
    return Claim(name, hotkey(WHO[name.split("-")[0]]), GENESIS, digest("content"), bindings)


CASES: dict[str, tuple[list[Claim], dict[str, Standing]]] = {
    "alone": ([claim("miner", attested(5))], {"miner": FIRST}),
    "earlier block": (
        [claim("rival", attested(6)), claim("miner", attested(5))],
        {"miner": FIRST, "rival": LATER},
    ),
    "same block, earlier extrinsic": (
        [claim("rival", attested(5, 3)), claim("miner", attested(5, 2))],
        {"miner": FIRST, "rival": LATER},
    ),
    "block before extrinsic": (
        [claim("rival", attested(6, 0)), claim("miner", attested(5, 9))],
        {"miner": FIRST, "rival": LATER},
    ),
    "a tie is nobody's": (
        [claim("miner", attested(5, 1)), claim("rival", attested(5, 1))],
        {"miner": TIE, "rival": TIE},
    ),
    "a third after a tie is later": (
        [claim("miner", attested(5, 1)), claim("rival", attested(5, 1)), claim("cold", attested(9))],
        {"miner": TIE, "rival": TIE, "cold": LATER},
    ),
    "one of the tied repeats": (
        [claim("miner", attested(5, 1)), claim("rival", attested(5, 1)), claim("miner-2", attested(9))],
        {"miner": TIE, "rival": TIE, "miner-2": SAME},
    ),
    "nothing anchored": ([claim("miner"), claim("rival")], {"miner": NEVER, "rival": NEVER}),
    "unanchored says nothing": ([claim("miner"), claim("rival", attested(9))], {"rival": FIRST, "miner": NEVER}),
    "the earliest anchor counts": (
        [claim("miner", attested(9), attested(4), attested(7)), claim("rival", attested(5))],
        {"miner": FIRST, "rival": LATER},
    ),
    "a commitment of the revision binds": (
        [claim("miner", committed(4)), claim("rival", attested(5))],
        {"miner": FIRST, "rival": LATER},
    ),
    "an attestation before a commitment": (
        [claim("rival", committed(5)), claim("miner", attested(4), committed(8))],
        {"miner": FIRST, "rival": LATER},
    ),
    "attesting later costs nothing": (
        [claim("miner", committed(4), attested(9)), claim("rival", attested(6))],
        {"miner": FIRST, "rival": LATER},
    ),
    "the same hotkey again is no copy": (
        [claim("miner", attested(5)), claim("miner-2", attested(8))],
        {"miner": FIRST, "miner-2": SAME},
    ),
    "twice at one position by one hotkey": (
        [claim("miner", attested(5)), claim("miner-2", attested(5))],
        {"miner": FIRST, "miner-2": FIRST},
    ),
    "a rival between": (
        [claim("miner", attested(5)), claim("rival", attested(6)), claim("miner-2", attested(8))],
        {"miner": FIRST, "rival": LATER, "miner-2": SAME},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_table(name: str) -> None:
    claims, expected = CASES[name]
    for order in (claims, claims[::-1]):
        assert {ranked.claim.digest: ranked.standing for ranked in rank(order)} == expected


def test_a_rotated_key_does_not_copy_itself() -> None:
    def owner(key: Hotkey) -> Hotkey:
        return hotkey(MINER) if key == hotkey(COLD) else key

    claims = [claim("miner", attested(5)), claim("cold", attested(8)), claim("rival", attested(9))]
    assert [ranked.standing for ranked in rank(claims, owner=owner)] == [FIRST, SAME, LATER]


def test_the_later_one_is_told_behind_whom() -> None:
    ranked = rank([claim("rival", attested(6)), claim("miner", attested(5))])
    assert [(r.claim.digest, r.behind) for r in ranked] == [("miner", ()), ("rival", ("miner",))]
    tied = rank([claim("rival", attested(5)), claim("miner", attested(5))])
    assert {r.claim.digest: r.behind for r in tied} == {"miner": ("rival",), "rival": ("miner",)}


def test_two_chains_have_no_common_order() -> None:
    other = replace(claim("rival", attested(1)), genesis="0x" + "0" * 64)
    with pytest.raises(ContextMismatch):
        rank([claim("miner", attested(5)), other])


def test_two_contents_have_no_common_order() -> None:
    with pytest.raises(MalformedInput):
        rank([claim("miner", attested(5)), replace(claim("rival", attested(1)), root=digest("other"))])


@pytest.mark.parametrize("revision", ["main", "a" * 39, "A" * 40, "a" * 40 + "\n", ""])
def test_a_branch_binds_nothing(revision: str) -> None:
    with pytest.raises(MalformedInput):
        Binding(Position(1, 0), By.COMMITMENT, revision)


def test_nothing_claimed_about_time_is_asked() -> None:
    assert effective(claim("miner")) is None
    assert rank([]) == ()


POSITIONS = st.builds(Position, st.integers(0, 4), st.integers(0, 2))


@settings(deadline=None)  # a busy machine is not a failure
@given(st.lists(st.tuples(st.sampled_from(sorted(WHO)), st.lists(POSITIONS, max_size=3)), max_size=6))
def test_at_most_one_owner_is_first_and_only_later_ones_are_flagged(drawn: list[tuple[str, list[Position]]]) -> None:
    claims = [
        Claim(f"{who}-{i}", hotkey(WHO[who]), GENESIS, "", tuple(Binding(p, By.ATTESTATION, "") for p in places))
        for i, (who, places) in enumerate(drawn)
    ]
    ranked = rank(claims)
    assert sorted(r.claim.digest for r in ranked) == sorted(c.digest for c in claims)
    first = [r for r in ranked if r.standing is FIRST]
    assert len({r.claim.hotkey for r in first}) <= 1
    earliest = min((r.position for r in ranked if r.position), default=None)
    for r in ranked:
        if r.standing is LATER:
            assert r.position is not None
            assert earliest is not None
            assert r.position > earliest
            assert r.behind
    if any(r.standing is TIE for r in ranked):
        assert not first
