"""What is taken, what is refused, and what is answered; each row of design/3-attest section 4 that a service meets."""

from __future__ import annotations

import dataclasses

import pytest

from attest import claims
from attest import envelope as dsse
from attest.checking import Expected, check
from attest.envelope import Envelope
from attest.errors import (
    AttestError,
    CommitmentMismatch,
    ContextMismatch,
    InvalidSignature,
    LineageCycle,
    ParentLaterThanChild,
    UnsupportedInput,
)
from attest.lineage import Judgement, Tensors, descend
from attest.log import verify_receipt
from attest.predicates import Account, KeyRotation
from attest.predicates.lineage import Made
from attest.predicates.rotation import ChainEvidence, Why
from attest.statement import state
from forensics.attestations.record import leaf_of
from forensics.attestations.relations import Measured
from forensics.place import Place
from tests.attest import material
from tests.forensics.attesting import (
    GENESIS,
    NETUID,
    PLACE,
    anchor,
    claim_of,
    context,
    digest,
    hotkey,
    pair,
    signed,
    signer,
)

ADA, BOB, EVE = pair("ada"), pair("bob", crypto_type=0), pair("eve")


@pytest.fixture
def service(services):
    return services.attestations


def receive(service, envelope, by=ADA):
    return service.receive(envelope.to_json(), submitted_by=hotkey(by).address)


def model(seed, changed=()):
    return material.tensors(seed, count=4, changed=changed)


def lineage_of(who, parent: Tensors, child: Tensors):
    return signed(descend(context(who), parent, child), signer(who))


def test_a_claim_is_logged_stored_and_its_receipt_proves_it(services, service):
    envelope = signed(claim_of(ADA), signer(ADA))
    received = receive(service, envelope)
    assert received.new
    assert received.record.digest == envelope.digest
    proven = verify_receipt(received.receipt, log=services.log_key)
    assert proven.leaf == envelope.to_json()
    assert proven.index == received.record.log_index == 0
    assert service.envelope(received.record) == envelope


def test_the_same_claim_signed_again_is_the_same_claim(services, service):
    statement = claim_of(ADA)
    first = receive(service, signed(statement, signer(ADA)))
    again = receive(service, signed(statement, signer(ADA)))  # sr25519 signatures are randomised
    assert not again.new
    assert again.record == first.record
    assert services.log.size() == 1


def test_a_forged_signature_on_a_known_claim_is_refused_all_the_same(service):
    statement = claim_of(ADA)
    receive(service, signed(statement, signer(ADA)))
    with pytest.raises(InvalidSignature):
        receive(service, signed(statement, signer(EVE)))


def test_what_a_stranger_adds_to_an_envelope_is_neither_logged_nor_stored(services, service):
    statement = claim_of(ADA)
    honest = signed(statement, signer(ADA))
    junk = dsse.Signature(b"junk", "eve's hint")
    noisy = Envelope(honest.payload, honest.payload_type, (junk, *honest.signatures))
    received = receive(service, noisy)
    assert services.log.leaf(received.record.log_index) == honest.to_json()


@pytest.mark.parametrize(
    "place",
    [Place("0x" + "11" * 32, 120, "demo"), Place(GENESIS, 121, "demo")],
    ids=["another chain", "another subnet"],
)
def test_a_replay_from_elsewhere_is_refused_before_any_use(services, service, place):
    with pytest.raises(ContextMismatch):
        receive(service, signed(claim_of(ADA, place=place), signer(ADA)))
    assert services.log.size() == 0


@pytest.mark.parametrize("name", ["snapshot", "commitment", "reveal", "decision"])
def test_what_the_service_says_itself_is_taken_from_nobody(services, service, name):
    statement, signers = material.every_statement()[name]
    with pytest.raises(UnsupportedInput):
        receive(service, signed(statement, *signers))
    assert services.log.size() == 0


def test_a_seal_is_opened_by_its_own_hotkey_alone(service):
    nonce, roots = bytes(32), claims.Roots(digest("secret"))
    seal = claims.seal(context(ADA), roots.content, nonce=nonce)
    receive(service, signed(seal, signer(ADA)))
    opening = claims.open_sealed(seal, context(ADA, parents=(seal.digest,)), roots, nonce=nonce)
    stolen = dataclasses.replace(opening.predicate, context=context(EVE, parents=(seal.digest,)))
    with pytest.raises(CommitmentMismatch):
        receive(service, signed(dataclasses.replace(opening, predicate=stolen), signer(EVE)))
    assert receive(service, signed(opening, signer(ADA))).record.opens == seal.digest


def test_a_copied_seal_cannot_be_opened_by_whoever_copied_it(service):
    nonce, root = bytes(32), digest("secret")
    seal = claims.seal(context(ADA), root, nonce=nonce)
    h = seal.digest_of("sealed-root")
    copy = state(dataclasses.replace(seal.predicate, context=context(EVE)), sealed_root=h)
    receive(service, signed(copy, signer(EVE)))
    theirs = claims.seal(context(EVE), root, nonce=nonce)  # what Eve would need to have sealed
    opening = claims.open_sealed(theirs, context(EVE, parents=(theirs.digest,)), claims.Roots(root), nonce=nonce)
    said = dataclasses.replace(
        opening.predicate,
        context=context(EVE, parents=(copy.digest,)),
        opening=dataclasses.replace(opening.predicate.opening, statement=copy.digest),
    )
    with pytest.raises(CommitmentMismatch):
        receive(service, signed(dataclasses.replace(opening, predicate=said), signer(EVE)))


def test_an_opening_of_a_seal_nobody_handed_in_is_refused(service):
    seal = claims.seal(context(ADA), digest("secret"), nonce=bytes(32))
    opening = claims.open_sealed(
        seal, context(ADA, parents=(seal.digest,)), claims.Roots(digest("secret")), nonce=bytes(32)
    )
    with pytest.raises(CommitmentMismatch):
        receive(service, signed(opening, signer(ADA)))


def test_an_opened_claim_counts_from_its_seal(services, service):
    nonce, roots = bytes(32), claims.Roots(digest("secret"))
    seal = claims.seal(context(ADA), roots.content, nonce=nonce)
    receive(service, signed(seal, signer(ADA)))
    anchor(services, 100)
    rival = receive(service, signed(claim_of(EVE, "secret"), signer(EVE)))
    anchor(services, 110)
    opening = claims.open_sealed(seal, context(ADA, parents=(seal.digest,)), roots, nonce=nonce)
    opened = receive(service, signed(opening, signer(ADA)))
    standings = service.standings(roots.content)
    assert standings.of(opened.record.digest) == "first"
    assert standings.of(rival.record.digest) == "later"


def test_back_dating_gains_nothing_the_earliest_anchor_counts(services, service):
    late = dataclasses.replace(
        claim_of(EVE).predicate, context=dataclasses.replace(context(EVE), claimed_at="2020-01-01T00:00:00Z")
    )
    honest = receive(service, signed(claim_of(ADA), signer(ADA)))
    anchor(services, 100)
    dated = receive(service, signed(dataclasses.replace(claim_of(EVE), predicate=late), signer(EVE)))
    anchor(services, 101)
    standings = service.standings(digest("m"))
    assert (standings.of(honest.record.digest), standings.of(dated.record.digest)) == ("first", "later")


def test_one_anchor_for_two_claims_is_a_tie_and_accuses_nobody(services, service):
    claims_ = [receive(service, signed(claim_of(who), signer(who))) for who in (ADA, EVE)]
    assert [service.standings(digest("m")).of(c.record.digest) for c in claims_] == ["unanchored", "unanchored"]
    anchor(services, 100)
    assert [service.standings(digest("m")).of(c.record.digest) for c in claims_] == ["tie", "tie"]


def test_a_rotated_key_keeps_its_past_and_loses_its_future(services, service):
    before = receive(service, signed(claim_of(ADA), signer(ADA)))
    anchor(services, 100)
    rotation = KeyRotation(
        context=context(ADA),
        predecessor=Account(scheme="sr25519", hotkey=hotkey(ADA).address),
        successor=Account(scheme="ed25519", hotkey=hotkey(BOB).address),
        why=Why.PLANNED,
        evidence=None,
        note="",
    )
    receive(service, signed(state(rotation), signer(ADA), signer(BOB)))
    anchor(services, 200)
    heir = receive(service, signed(claim_of(BOB), signer(BOB)))
    after = receive(service, signed(claim_of(ADA, "newer"), signer(ADA)))
    anchor(services, 300)
    assert service.standings(digest("m")).of(before.record.digest) == "first"
    assert service.standings(digest("m")).of(heir.record.digest) == "same-owner"
    assert service.standings(digest("newer")).of(after.record.digest) == "key-rotated"


def test_a_rotation_needs_both_keys_or_a_swap_the_chain_shows(services, service):
    rotation = material.rotation(material.MINER, material.COLD, context=PLACE.context(material.hotkey(material.MINER)))
    with pytest.raises(AttestError):
        receive(service, signed(rotation, material.MINER))
    lost = KeyRotation(
        context=context(EVE),
        predecessor=Account(scheme="sr25519", hotkey=hotkey(ADA).address),
        successor=Account(scheme="sr25519", hotkey=hotkey(EVE).address),
        why=Why.LOST,
        evidence=ChainEvidence(block=5, extrinsic_index=1),
        note="",
    )
    receive(service, signed(state(lost), signer(EVE)))  # it is on record, and the chain shows no such swap
    anchor(services, 100)
    assert service.history(NETUID).heir(hotkey(ADA)) == hotkey(ADA)


def test_a_rotation_counts_on_the_subnet_it_was_signed_for_alone(services, service):
    other = Place(GENESIS, NETUID + 1, "demo")
    service.netuid = None  # a service for any subnet
    rotation = KeyRotation(
        context=context(ADA, place=other),
        predecessor=Account(scheme="sr25519", hotkey=hotkey(ADA).address),
        successor=Account(scheme="ed25519", hotkey=hotkey(BOB).address),
        why=Why.PLANNED,
        evidence=None,
        note="",
    )
    receive(service, signed(state(rotation), signer(ADA), signer(BOB)))
    anchor(services, 200)
    here = receive(service, signed(claim_of(ADA), signer(ADA))).record
    there = receive(service, signed(claim_of(ADA, place=other), signer(ADA))).record
    anchor(services, 300)
    assert service.history(NETUID).heir(hotkey(ADA)) == hotkey(ADA)
    assert service.history(other.netuid).heir(hotkey(ADA)) == hotkey(BOB)
    assert service.standings(digest("m"), netuid=NETUID).of(here.digest) == "first"
    assert service.standings(digest("m"), netuid=other.netuid).of(there.digest) == "key-rotated"
    assert service.standings(digest("m")).rotated == (there.digest,)


def test_a_lineage_to_an_unknown_parent_is_unverifiable(service):
    received = receive(service, lineage_of(ADA, model("p"), model("p", (1,))))
    assert received.edge.judgement is Judgement.UNVERIFIABLE


def test_lineage_cycles_are_refused_and_leave_no_trace(services, service):
    one, two, three = model("p"), model("p", (1,)), model("p", (1, 2))
    receive(service, lineage_of(ADA, one, two))
    receive(service, lineage_of(ADA, two, three))
    with pytest.raises(LineageCycle):
        receive(service, lineage_of(EVE, three, one))
    assert services.log.size() == 2
    assert len(service.lineages.graph().ancestry(three.root)) == 2


def test_a_parent_bound_after_its_child_is_refused(services, service):
    parent, child = model("p"), model("p", (1,))
    for who, tensors, block in ((ADA, child, 100), (BOB, parent, 200)):
        statement = claims.own(context(who), claims.Roots(tensors.root))
        receive(service, signed(statement, signer(who)))
        anchor(services, block)
    with pytest.raises(ParentLaterThanChild):
        receive(service, lineage_of(ADA, parent, child))


class Says:
    """Relations as a test wants them."""

    def __init__(self, relation=None, parents=()):
        self.answer = Measured(relation, parents)

    def measure(self, child, parent, *, made: Made):
        return self.answer


@pytest.mark.parametrize(
    ("relation", "judgement"),
    [
        ("derived", "confirmed"),
        ("perturbed", "confirmed"),
        ("independent", "contradicted"),
        ("sibling", "contradicted"),
        ("inconclusive", "unverifiable"),
        (None, "unverifiable"),
    ],
)
def test_a_declared_lineage_is_held_against_what_was_measured(service, relation, judgement):
    service.lineages._relations = Says(relation)
    received = receive(service, lineage_of(ADA, model("p"), model("p", (1,))))
    assert received.edge.judgement == judgement
    assert received.edge.relation == relation


def test_what_could_not_be_judged_is_judged_once_the_models_are_known(service):
    envelope = lineage_of(ADA, model("p"), model("p", (1,)))
    receive(service, envelope)
    assert service.reconsider() == []
    assert receive(service, envelope).edge.judgement is Judgement.UNVERIFIABLE
    service.lineages._relations = Says("derived")
    (changed,) = service.reconsider()
    assert changed.judgement is Judgement.CONFIRMED
    assert service.lineages.edge_of(envelope.digest) == changed
    assert receive(service, envelope).edge == changed


def test_a_measured_parent_that_nobody_declared_is_shown_as_such(service):
    parent, child = model("p").root, model("p", (1,)).root
    service.lineages.found(parent, child, Measured("derived"))
    (edge,) = service.lineages.graph().undeclared(child)
    assert (edge.parent, edge.declared) == (parent, None)


def test_a_statement_too_long_for_a_leaf_is_logged_by_its_digests(services, service):
    parent, child = material.tensors("p", count=300), material.tensors("q", count=300)
    envelope = lineage_of(ADA, parent, child)
    received = receive(service, envelope)
    leaf = services.log.leaf(received.record.log_index)
    assert len(leaf) < 1000 < len(envelope.to_json())
    assert leaf == leaf_of(envelope)
    assert service.envelope(received.record) == envelope


def test_stored_statements_verify_on_their_own(service):
    received = receive(service, signed(claim_of(BOB), signer(BOB)))
    stored = service.envelope(received.record)
    assert check(stored, claims.Ownership, expected=Expected(GENESIS, 120)).digest == received.record.digest


def test_handing_a_lineage_in_again_has_it_judged_again(service):
    envelope = lineage_of(ADA, model("p"), model("p", (1,)))
    receive(service, envelope)
    service.lineages._relations = Says("independent")
    assert receive(service, envelope).edge.judgement is Judgement.CONTRADICTED
