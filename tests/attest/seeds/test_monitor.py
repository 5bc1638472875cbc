from __future__ import annotations

from hashlib import sha256

from attest import envelope
from attest.keys.ed25519 import Ed25519Signer
from attest.log.note import NoteKey
from attest.seeds import batch, derive
from attest.seeds.course import ORDER, Story
from attest.seeds.monitor import Watch
from attest.statement import state

from ..material import every_statement
from .material import CONTEXT, LEAGUE, OPEN, ORIGIN, OTHER, SECRET, SERVICE, Operator

KEY = NoteKey(ORIGIN, SERVICE.verifier.public_bytes)


def leaves(operator: Operator) -> list[bytes]:
    return [operator.log.leaf(number) for number in range(operator.log.size())]


def shown(bodies: list[bytes]) -> Watch:
    watch = Watch(KEY)
    for number, body in enumerate(bodies):
        watch.take(number, body)
    return watch


def second_commitment(operator: Operator, signer=SERVICE) -> bytes:
    committed, timelock = derive.commitment(CONTEXT, OTHER), LEAGUE.encrypt(OTHER, OPEN)
    (place,) = batch.places([batch.leaf(CONTEXT, committed, timelock)])
    return envelope.sign(state(operator.commitment(committed, timelock, place)).payload(), [signer]).to_json()


def test_an_honest_log_tells_one_story():
    operator = Operator()
    operator.file()
    watch = shown(leaves(operator))
    assert watch.found == []
    assert [(epoch[1:], leaf) for epoch, leaf in watch.commitments.items()] == [((120, "demo", 7), 0)]


def test_a_second_commitment_a_second_opening_and_a_second_reveal_are_found():
    operator = Operator()
    operator.file()
    honest = leaves(operator)
    committed = derive.commitment(CONTEXT, SECRET)
    parent = envelope.read(honest[0]).digest
    opened = operator.opening(committed, parent, sha256(b"preferred").digest())
    revealed = operator.reveal(committed, parent, sha256(b"preferred").digest())
    again = [envelope.sign(state(said).payload(), [SERVICE]).to_json() for said in (opened, revealed)]
    watch = shown([*honest, second_commitment(operator), *again])
    assert [(lie.code, lie.first, lie.second) for lie in watch.found] == [
        ("two_commitments", 0, 6),
        ("said_twice", 3, 7),
        ("two_reveals", 5, 8),
    ]


def test_nobody_else_can_put_a_contradiction_there():
    operator = Operator()
    operator.file()
    stranger = Ed25519Signer(sha256(b"stranger").digest())
    kinds = {name: parts for name, parts in every_statement().items() if name not in ("commitment", "reveal", "step")}
    others = [envelope.sign(said.payload(), list(signers)).to_json() for said, signers in kinds.values()]
    junk = [b"", b"{}", b"\xff" * 40, second_commitment(operator, stranger)]
    assert shown([*leaves(operator), *junk, *others]).found == []


def test_the_log_tells_the_whole_story_of_a_commitment():
    operator = Operator()
    operator.file()
    story = operator.watch().story(operator.statement)
    assert [(said.leaf, said.step) for said in story.steps] == list(enumerate(ORDER, 1))
    assert (story.reveal, story.size) == (5, 6)
    assert operator.watch().story("sha256:" + "00" * 32) == Story((), None, 6)
