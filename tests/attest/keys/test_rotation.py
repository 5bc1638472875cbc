"""Hand-overs: both keys agree, the chain says when, and hostile statements break no line."""

from __future__ import annotations

from itertools import permutations

import pytest

from attest import envelope as dsse
from attest.checking import Checked, check
from attest.errors import InvalidSignature, KeyRotated, MalformedInput, RotationRefused
from attest.keys.interface import Signer
from attest.keys.rotation import HandOver, KeyHistory, Swap, hand_over
from attest.keys.sr25519 import Sr25519Signer
from attest.predicates import KeyRotation
from attest.predicates.rotation import ChainEvidence, Why
from attest.priority import Position
from attest.statement import Statement
from tests.attest.material import COLD, GENESIS, HERE, MINER, NETUID, RIVAL, account, context, hotkey, rotation

A, B, C, D = (hotkey(Sr25519Signer(bytes([n]) * 32)) for n in range(1, 5))


def checked(statement: Statement, *signers: Signer) -> Checked[KeyRotation]:
    return check(dsse.sign(statement.payload(), signers).to_json(), KeyRotation, expected=HERE)


def test_both_keys_sign_a_hand_over() -> None:
    agreed = hand_over(checked(rotation(), MINER, COLD), anchor=Position(9, 1))
    assert (agreed.old, agreed.new, agreed.position) == (hotkey(MINER), hotkey(COLD), Position(9, 1))
    for alone in ([MINER], [COLD], [MINER, MINER], [MINER, RIVAL]):
        with pytest.raises(InvalidSignature):
            checked(rotation(), *alone)


def test_a_hand_over_counts_from_its_anchor_only() -> None:
    with pytest.raises(RotationRefused, match="not anchored"):
        hand_over(checked(rotation(), MINER, COLD), anchor=None)


def test_a_lost_key_is_replaced_by_chain_evidence() -> None:
    evidence = ChainEvidence(block=50, extrinsic_index=4)
    lost = rotation(context=context(COLD), why=Why.LOST, evidence=evidence)
    claim = checked(lost, COLD)
    swap = Swap(hotkey(MINER), hotkey(COLD), GENESIS, None, Position(50, 4))
    assert hand_over(claim, anchor=None, swaps=[swap]).position == Position(50, 4)
    elsewhere = [
        Swap(hotkey(RIVAL), hotkey(COLD), GENESIS, None, Position(50, 4)),
        Swap(hotkey(MINER), hotkey(COLD), "0x" + "0" * 64, None, Position(50, 4)),
        Swap(hotkey(MINER), hotkey(COLD), GENESIS, NETUID + 1, Position(50, 4)),
        Swap(hotkey(MINER), hotkey(COLD), GENESIS, NETUID, Position(50, 5)),
    ]
    with pytest.raises(RotationRefused, match="no such swap"):
        hand_over(claim, anchor=Position(1, 0), swaps=elsewhere)


def test_the_right_key_speaks() -> None:
    with pytest.raises(MalformedInput, match="wrong key"):
        rotation(context=context(COLD))
    with pytest.raises(MalformedInput, match="wrong key"):
        rotation(context=context(MINER), evidence=ChainEvidence(block=1, extrinsic_index=0))
    with pytest.raises(MalformedInput, match="itself"):
        rotation(successor=account(MINER))


def step(old: object, new: object, block: int, extrinsic: int = 0, evidence: str = "") -> HandOver:
    return HandOver(old, new, Position(block, extrinsic), evidence)  # type: ignore[arg-type]


def test_old_claims_are_judged_at_their_block() -> None:
    history = KeyHistory([step(A, B, 10), step(B, C, 20)])
    history.check_valid(A, Position(9, 99))
    history.check_valid(B, Position(19, 0))
    history.check_valid(C, Position(10**6, 0))
    for key, block in ((A, 10), (A, 11), (B, 20)):
        with pytest.raises(KeyRotated) as caught:
            history.check_valid(key, Position(block, 0))
        assert caught.value.code == "key_rotated"


def test_a_line_has_one_origin_and_one_heir() -> None:
    history = KeyHistory([step(B, C, 20), step(A, B, 10)])
    assert history.line(B) == (A, B, C)
    assert {history.origin(key) for key in (A, B, C)} == {A}
    assert {history.heir(key) for key in (A, B, C)} == {C}
    assert history.line(D) == (D,)


@pytest.mark.parametrize(
    ("steps", "line", "refused"),
    [
        ([step(A, B, 10), step(A, C, 11)], (A, B), 1),
        ([step(A, B, 10), step(A, C, 10)], (A,), 2),
        ([step(A, B, 10), step(B, A, 11)], (A, B), 1),
        ([step(A, B, 10), step(B, C, 11), step(C, A, 12)], (A, B, C), 1),
        ([step(A, B, 10), step(B, C, 10)], (A,), 2),
        ([step(A, C, 10), step(B, C, 11)], (A, C), 1),
        ([step(B, D, 5), step(A, B, 10)], (A,), 1),
        ([step(A, A, 10)], (A,), 1),
    ],
    ids=["fork", "fork at once", "back", "cycle", "chain at once", "two pasts", "spent successor", "self"],
)
def test_hostile_hand_overs_are_refused_and_break_no_line(steps: list[HandOver], line: object, refused: int) -> None:
    for order in permutations(steps):
        history = KeyHistory(order)
        assert history.line(A) == line
        assert len(history.refused) == refused


def test_a_recycled_uid_transfers_nothing() -> None:
    """Nothing takes a uid: whoever registers on a freed slot is another hotkey, of another line."""
    history = KeyHistory([step(A, B, 10)])
    newcomer = D
    assert history.origin(newcomer) == newcomer != history.origin(B)
