from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detectors.copy import Candidate, Claim, Declared, Facts, Parent, Place, findings
from detectors.copy.facts import Order
from detectors.errors import MalformedFacts
from detectors.evidence import Finding
from fingerprint.compare.relation import COPY_CLASS, Relation
from tests.detectors.copy.facts import claim, facts, known, match, root

ME = claim("me", 100, 5)
RIVAL = claim("rival", 50, 1)


def codes(found) -> list[str]:
    return [finding.code for finding in found]


def excuses(finding: Finding) -> list[str]:
    return [fact.code for fact in finding.exculpatory]


@pytest.mark.parametrize("relation", sorted(COPY_CLASS))
def test_a_copy_of_earlier_work_of_somebody_else_is_one_accusation(relation):
    found = findings(facts(ME, match(known("theirs", RIVAL), relation), comparisons=4))
    assert codes(found) == [f"copy.{relation}"]
    (copy,) = found
    assert copy.subject.name == f"me@{ME.revision}"
    assert copy.object.name == f"rival@{RIVAL.revision}"
    assert copy.measured["place"] == "100-5"
    assert copy.measured["reference_place"] == "50-1"
    assert copy.evidence == root(f"evidence {root('theirs')} {relation}")


def test_many_comparisons_make_a_copy_less_sure():
    theirs = match(known("theirs", RIVAL), Relation.PERTURBED, p=1e-9)
    assert findings(facts(ME, theirs, comparisons=1))[0].p_value == pytest.approx(1e-9)
    assert findings(facts(ME, theirs, comparisons=16))[0].p_value == pytest.approx(16e-9)
    assert findings(facts(ME, match(known("x", RIVAL), Relation.PERTURBED, p=0.5), comparisons=16))[0].p_value == 1.0


def test_equal_content_is_proof_and_other_copies_are_not():
    proofs = {
        relation: findings(facts(ME, match(known("theirs", RIVAL), relation)))[0].measured.get("proof")
        for relation in COPY_CLASS
    }
    assert proofs == {Relation.IDENTICAL: "equal_content", Relation.EQUIVALENT: None, Relation.PERTURBED: None}


@pytest.mark.parametrize(
    ("theirs", "code", "excuse"),
    [
        (claim("rival", 101), "priority.later", "reference_later"),
        (claim("rival", 100, 6), "priority.later", "reference_later"),
        (claim("rival", 100, 5), "priority.tie", "tie"),
        (claim("rival", 100, None), "priority.tie", "tie"),
        (claim("rival", None), "priority.unplaced", "no_order"),
        (claim("rival", 50, withdrawn=True), "priority.withdrawn", "reference_withdrawn"),
        (claim("me", 50), "priority.own", "own_model"),
        (claim("other key", 50, coldkey="cold"), "priority.own", "own_model"),
        (claim("other key", 50, operator="first key"), "priority.own", "own_model"),
    ],
)
@pytest.mark.parametrize("relation", sorted(COPY_CLASS))
def test_what_is_no_accusation_is_said_with_its_reason(theirs, code, excuse, relation):
    mine = claim("me", 100, 5, coldkey="cold", operator="first key")
    found = findings(facts(mine, match(known("theirs", theirs), relation)))
    assert codes(found) == [code]
    assert excuses(found[0]) == [excuse]
    assert found[0].p_value == 1.0


def test_not_knowing_an_owner_does_not_make_two_hotkeys_one_party():
    theirs = claim("rival", 50, coldkey=None, operator=None)
    assert codes(findings(facts(ME, match(known("theirs", theirs), Relation.PERTURBED)))) == ["copy.perturbed"]


def test_the_earliest_claim_that_stands_counts():
    model = known("theirs", claim("late", 90), claim("first", 10), claim("gone", 1, withdrawn=True))
    (copy,) = findings(facts(ME, match(model, Relation.IDENTICAL)))
    assert copy.object.name.startswith("first@")


def test_of_several_copied_models_the_earliest_that_is_sure_is_named():
    unsure = match(known("oldest", claim("oldest", 1)), Relation.PERTURBED, p=1e-4)
    sure = match(known("middle", claim("middle", 20)), Relation.PERTURBED, p=1e-12)
    later = match(known("newer", claim("newer", 30)), Relation.IDENTICAL)
    assert findings(facts(ME, later, unsure, sure))[0].object.name.startswith("middle@")
    assert findings(facts(ME, unsure))[0].object.name.startswith("oldest@")


def test_an_own_original_that_was_copied_since_protects_its_owner():
    """A rival copied the miner's model, and the miner hands in their own model again."""
    own = match(known("original", claim("me", 10)), Relation.PERTURBED)
    theirs = match(known("their copy", claim("rival", 50)), Relation.IDENTICAL)
    assert codes(findings(facts(ME, theirs, own))) == ["priority.later", "priority.own"]


def test_an_own_model_that_is_no_relative_protects_nobody():
    own = match(known("something else", claim("me", 10)), Relation.INDEPENDENT)
    theirs = match(known("theirs", claim("rival", 50)), Relation.IDENTICAL)
    assert codes(findings(facts(ME, theirs, own))) == ["copy.identical"]


def test_the_content_of_the_candidate_claimed_by_a_rival_first_is_a_copy():
    model = known("candidate", claim("rival", 50), claim("me", 100, 5))
    assert codes(findings(facts(ME, match(model, Relation.IDENTICAL)))) == ["copy.identical"]
    assert codes(findings(facts(claim("rival", 50), match(model, Relation.IDENTICAL)))) == ["priority.later"]


@pytest.mark.parametrize(
    ("since", "code"),
    [(None, "copy.identical"), (99, "copy.identical"), (101, "priority.later"), (100, "copy.identical")],
)
def test_a_public_base_is_older_than_all_unless_it_says_since_when_it_is_public(since, code):
    base = known("base", claim(None, since), base=True)
    found = findings(facts(ME, match(base, Relation.IDENTICAL)))
    assert codes(found) == [code]
    if code == "copy.identical":
        assert "public_base" in excuses(found[0])
        assert found[0].object.name == root("base")


def test_a_declared_parent_travels_with_the_accusation():
    theirs = match(known("theirs", RIVAL), Relation.PERTURBED)
    found = findings(facts(ME, theirs, declared=(Declared(root("theirs"), "confirmed"),)))
    assert codes(found) == ["copy.perturbed"]
    assert "declared_parent" in excuses(found[0])


def test_descent_names_parents_and_accuses_nobody():
    base = match(known("base", claim(None), base=True), Relation.DERIVED)
    assert codes(findings(facts(ME, base))) == ["lineage.derived"]
    theirs = match(known("theirs", RIVAL), Relation.DERIVED)
    found = findings(facts(ME, theirs, base))
    assert codes(found) == ["lineage.derived", "lineage.undeclared"]
    assert found[0].object.name == root("theirs")
    declared = findings(facts(ME, theirs, declared=(Declared(root("theirs"), "unverifiable"),)))
    assert codes(declared) == ["lineage.derived"]
    assert declared[0].measured["declared"] == 1


def test_a_merge_names_every_parent_with_its_weight_and_no_trace_of_one():
    one, two, trace = (known(name, claim(name, block)) for name, block in (("one", 1), ("two", 2), ("trace", 3)))
    merged = match(one, Relation.MERGED, parents=[Parent(one, 0.6), Parent(two, 0.35), Parent(trace, 0.05)])
    found = [f for f in findings(facts(ME, merged)) if f.code == "lineage.merged"]
    assert [(f.object.name, f.measured["weight"]) for f in found] == [(root("one"), 0.6), (root("two"), 0.35)]


def test_what_came_later_is_no_parent():
    child = match(known("child", claim("rival", 200)), Relation.DERIVED)
    assert findings(facts(ME, child)) == ()


def test_a_declared_parent_that_measuring_ruled_out_is_said():
    base = match(known("base", claim(None), base=True), Relation.DERIVED)
    found = findings(facts(ME, base, declared=(Declared(root("theirs"), "contradicted"),)))
    assert codes(found) == ["lineage.derived", "lineage.contradicted"]


def test_the_undecided_is_said_and_the_unrelated_is_not():
    open_ = match(known("theirs", RIVAL), Relation.INCONCLUSIVE)
    assert codes(findings(facts(ME, open_))) == ["lineage.inconclusive"]
    assert findings(facts(ME, match(known("theirs", RIVAL), Relation.SIBLING))) == ()
    assert findings(facts(ME)) == ()


@pytest.mark.parametrize(
    "broken",
    [
        lambda: match(known("x", RIVAL), Relation.IDENTICAL, p=1.5),
        lambda: match(known("x", RIVAL), Relation.IDENTICAL, confidence=float("nan")),
        lambda: facts(claim(None, 1), match(known("x", RIVAL), Relation.IDENTICAL)),
        lambda: Facts(Candidate(ME, root("c")), (match(known("x", RIVAL), Relation.IDENTICAL),) * 2, comparisons=1),
        lambda: Candidate(ME, "main"),
        lambda: Parent(known("x"), float("inf")),
    ],
)
def test_facts_that_contradict_themselves_are_refused(broken):
    with pytest.raises(MalformedFacts):
        broken()


places = st.builds(Place, st.integers(0, 3), st.none() | st.integers(0, 2))


@given(places, places)
def test_order_is_antisymmetric(one, other):
    opposite = {Order.EARLIER: Order.LATER, Order.LATER: Order.EARLIER, Order.TIE: Order.TIE}
    assert other.order(one) is opposite[one.order(other)]
    assert one.order(None) is Order.UNKNOWN


claims = st.builds(
    lambda hotkey, place, cold, withdrawn: Claim(hotkey, None, place, cold, None, withdrawn),
    st.sampled_from(["me", "a", "b"]),
    st.none() | places,
    st.sampled_from([None, "cold", "colder"]),
    st.booleans(),
)
matches = st.builds(
    lambda name, held, base, relation: match(known(name, *held, base=base), relation),
    st.sampled_from(["x", "y", "z"]),
    st.lists(claims, max_size=3),
    st.booleans(),
    st.sampled_from(list(Relation)),
)


@given(places, st.lists(matches, max_size=4))
def test_nobody_is_accused_of_copying_what_is_not_shown_to_be_earlier_and_of_another(place, found):
    mine = claim("me", place.block, place.extrinsic, coldkey="cold")
    said = findings(facts(mine, *found))
    by_root = {}
    for one in found:
        by_root.setdefault(one.model.content_root, []).append(one.model)
    for finding in said:
        if finding.family != "copy":
            continue
        models = by_root[str(finding.measured["reference"])]
        earlier = itertools.chain.from_iterable(m.standing for m in models)
        assert any(m.base for m in models) or any(
            not c.same_party(mine) and c.place is not None and c.place.order(place) is Order.EARLIER for c in earlier
        )


@given(places, st.lists(matches, max_size=4))
def test_the_same_facts_give_the_same_findings(place, found):
    mine = claim("me", place.block, place.extrinsic)
    first, second = (findings(facts(mine, *found)) for _ in range(2))
    assert [f.digest for f in first] == [f.digest for f in second]
    assert [Finding.read(f.document()).digest for f in first] == [f.digest for f in first]
