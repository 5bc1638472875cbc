"""What the database of a service knows goes into the facts: owners, swaps, sealed commitments, attestations."""

from __future__ import annotations

import pytest

from detectors.copy import Place
from forensics.known.claim import Claim, Role
from forensics.store.chain import CommitRow
from forensics.store.engine import writing
from forensics.verdicts.attested import Attested
from forensics.verdicts.identified import Submitted
from forensics.verdicts.opening import examiner
from forensics.verdicts.places import ChainPlaces
from tests.forensics.attesting import GENESIS, NETUID, NOON, anchor, claim_of, pair, signed, signer
from tests.forensics.verdicts.field import hotkey, revision
from tests.forensics.verdicts.test_store import neuron, swap

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def commit(name: str, block: int, extrinsic: int = 0, **more) -> CommitRow:
    told = {"kind": "plain", "exact": True, "sealed_block": None, "sealed_extrinsic": None, "reveal_round": None} | more
    who = {"genesis": GENESIS, "netuid": NETUID, "hotkey": hotkey(name), "data": b"", "digest": "", "seen_at": NOON}
    return CommitRow(block=block, extrinsic=extrinsic, **who, **told)


def test_a_sealed_commitment_is_bound_when_it_was_sealed_and_a_vague_one_by_its_block(field):
    with writing(field.engine) as session:
        session.add(commit("ada", 500, kind="revealed", sealed_block=100, sealed_extrinsic=7))
        session.add(commit("bob", 500, 3, exact=False))
        session.add(commit("cleo", 500, 3))
    places = ChainPlaces(field.engine, GENESIS)
    assert places.bound(hotkey("ada"), Place(500, 0)) == Place(100, 7)
    assert places.bound(hotkey("bob"), Place(500, 3)) == Place(500, None)
    assert places.bound(hotkey("cleo"), Place(500, 3)) == Place(500, 3)
    assert places.bound(hotkey("dan"), Place(500, 3)) == Place(500, 3)
    assert places.bound(hotkey("cleo"), Place(500, 4)) == Place(500, 4)


def looked_at(field, print_, *claimed, block=500, relation="identical"):
    """Codes that the service's examiner finds for ``mine`` on content that ``theirs`` claims too."""
    for name, at in claimed:
        field.registry.add(print_, Claim(Role.SUBMISSION, name, hotkey(name), at, 0, revision=revision(name)))
    match = {
        "content_root": print_.content_root,
        "comparison": {
            "relation": relation,
            "confidence": 1.0,
            "false_accusation_probability": 0.0,
            "coverage": 1.0,
            "transforms": [],
            "parents": [{"digest": print_.content_root, "weight": 1.0}],
            "algorithm": "compare/test",
        },
        "evidence": "sha256:" + "0" * 64,
    }
    submitted = Submitted(hotkey("mine"), revision("mine"), block, 0, print_.content_root)
    found = examiner(field.engine, field.registry, genesis=GENESIS, netuid=NETUID)
    return [finding.code for finding in found.findings(submitted, {"matches": [match]})]


def test_an_earlier_claim_of_a_stranger_accuses(field, ada):
    assert looked_at(field, ada, ("theirs", 400), ("mine", 500)) == ["copy.identical"]


def test_the_same_coldkey_or_a_swapped_hotkey_is_the_same_party(field, ada, bob):
    with writing(field.engine) as session:
        session.add_all([neuron("theirs", "cold"), neuron("mine", "cold", since=2)])
    assert looked_at(field, ada, ("theirs", 400), ("mine", 500)) == ["priority.own"]
    with writing(field.engine) as session:
        session.add(swap("before", "mine", 450))
    assert looked_at(field, bob, ("before", 400), ("mine", 501), block=501) == ["priority.own"]


def test_reveals_of_one_block_are_ordered_by_when_they_were_sealed(field, ada):
    with writing(field.engine) as session:
        session.add(commit("mine", 500, kind="revealed", sealed_block=300, sealed_extrinsic=2))
        session.add(commit("theirs", 500, kind="revealed", sealed_block=310, sealed_extrinsic=1))
    assert looked_at(field, ada, ("theirs", 500), ("mine", 500)) == ["priority.later"]


def test_reveals_of_one_block_whose_seals_are_not_known_tie(field, ada):
    assert looked_at(field, ada, ("theirs", 500), ("mine", 500)) == ["priority.tie"]


def test_an_anchored_attestation_moves_a_claim_to_its_anchor(services):
    keys = pair("ada")
    received = services.attestations.receive(signed(claim_of(keys), signer(keys)).to_json(), submitted_by="ada")
    root = received.record.content_root
    said = Attested(services.attestations, netuid=NETUID)
    assert said.place(root, keys.ss58_address) is None
    anchor(services, 77, 3)
    assert said.place(root, keys.ss58_address) == Place(77, 3)
    assert said.place(root, hotkey("somebody else")) is None
    assert said.origin(keys.ss58_address) == keys.ss58_address
    assert said.declared(root) == []
