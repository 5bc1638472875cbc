"""Lineage: proven changes, complete lists, and the graph."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest import canonical
from attest import envelope as dsse
from attest.checking import Checked
from attest.errors import (
    ContentMismatch,
    InputTooLarge,
    LineageCycle,
    LineageError,
    MalformedInput,
    ParentLaterThanChild,
)
from attest.graph import Edge, LineageGraph
from attest.lineage import Judgement, Tensors, check_complete, check_lineage, compare, descend, judge
from attest.predicates import Lineage
from attest.predicates.lineage import MAX_LISTED
from attest.priority import Position
from attest.statement import CONTENT_ROOT, Statement
from tests.attest.material import HERE, MINER, context, lineage, tensors


def checked(statement: Statement) -> Checked[Lineage]:
    return check_lineage(dsse.sign(statement.payload(), [MINER]).to_json(), expected=HERE)


def test_the_content_root_is_the_fingerprints() -> None:
    from fingerprint.content import content_root

    model = tensors("m", count=7)
    assert model.root == content_root(model.digests.items())
    assert Tensors({}).root == content_root([])


def test_a_lineage_claim_names_what_changed_with_proofs() -> None:
    claim = checked(lineage())
    changes = claim.predicate.changes
    assert [tensor.name for tensor in changes.listed] == ["layer.1", "layer.3"]
    assert (changes.changed, changes.added, changes.removed, changes.unchanged) == (2, 0, 0, 3)
    root = claim.statement.digest_of(CONTENT_ROOT) or ""
    parent, child = tensors("m"), tensors("m", changed=(1, 3))
    check_complete(claim.predicate, child_root=root, parent=parent, child=child)
    for other in (tensors("m", changed=(1,)), tensors("m", changed=(1, 2, 3)), tensors("x")):
        with pytest.raises(ContentMismatch):
            check_complete(claim.predicate, child_root=root, parent=parent, child=other)
        with pytest.raises(ContentMismatch):
            check_complete(claim.predicate, child_root=root, parent=other, child=child)


def _resigned(change: Any) -> bytes:
    members = json.loads(lineage().payload())
    change(members["predicate"]["changes"]["listed"][0], members)
    return dsse.sign(canonical.write(members), [MINER]).to_json()


LIES = {
    "digest": lambda tensor, _: tensor["after"].update(digest="0" * 64),
    "name": lambda tensor, _: tensor.update(name="layer.0"),
    "index": lambda tensor, _: tensor["after"]["proof"].update(index=0),
    "index beyond": lambda tensor, _: tensor["after"]["proof"].update(index=5),
    "path": lambda tensor, _: tensor["before"]["proof"]["path"].reverse(),
    "short path": lambda tensor, _: tensor["before"]["proof"]["path"].pop(),
    "long path": lambda tensor, _: tensor["before"]["proof"]["path"].append("0" * 64),
    "removed instead": lambda tensor, _: tensor.update(before=tensor["after"], after=None),
    "another parent": lambda _, members: members["predicate"]["parent"].update(content_root="sha256:" + "0" * 64),
    "another child": lambda _, members: members["subject"][0]["digest"].update(sha256="0" * 64),
    "own parent": lambda _, members: members["predicate"]["parent"].update(
        content_root="sha256:" + members["subject"][0]["digest"]["sha256"]
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_changes_that_are_not_proven_are_refused(lie: str) -> None:
    with pytest.raises((LineageError, MalformedInput)):
        check_lineage(_resigned(LIES[lie]), expected=HERE)


def test_a_copy_is_no_child() -> None:
    with pytest.raises(LineageError, match="same tensors"):
        compare(tensors("m"), tensors("m"))


def test_too_many_tensors_are_refused_before_hashing() -> None:
    class Many(dict[str, str]):
        def __len__(self) -> int:
            return 1_000_001

    with pytest.raises(InputTooLarge):
        Tensors(Many())


def test_when_too_much_changed_the_listed_part_is_drawn_by_digest() -> None:
    parent, child = tensors("m", count=1100), tensors("n", count=1100)
    statement = descend(context(MINER), parent, child)
    assert len(statement.payload()) < 4 * 1024 * 1024
    claim = checked(statement)
    listed = [tensor.name for tensor in claim.predicate.changes.listed]
    assert len(listed) == MAX_LISTED
    assert claim.predicate.changes.changed == 1100
    seed = bytes.fromhex(claim.predicate.changes.changed_root[7:])
    drawn = sorted(parent.digests, key=lambda name: sha256(seed + name.encode()).digest())[:MAX_LISTED]
    assert listed == sorted(drawn)


NAMES = st.dictionaries(st.text(min_size=1, max_size=6), st.sampled_from(["00" * 32, "11" * 32]), max_size=9)


@given(NAMES, NAMES)
@settings(max_examples=60, deadline=None)
def test_any_two_models_give_a_claim_that_verifies_and_is_complete(before: Any, after: Any) -> None:
    parent, child = Tensors(before), Tensors(after)
    if before == after:
        return
    statement = descend(context(MINER), parent, child)
    claim = checked(statement)
    check_complete(claim.predicate, child_root=child.root, parent=parent, child=child)


@pytest.mark.parametrize(
    ("relation", "parents", "expected"),
    [
        ("derived", [], Judgement.CONFIRMED),
        ("identical", [], Judgement.CONFIRMED),
        ("partial", [], Judgement.CONFIRMED),
        ("merged", ["p"], Judgement.CONFIRMED),
        ("merged", ["q"], Judgement.UNVERIFIABLE),
        ("independent", [], Judgement.CONTRADICTED),
        ("sibling", [], Judgement.CONTRADICTED),
        ("inconclusive", [], Judgement.UNVERIFIABLE),
        ("a word of the future", [], Judgement.UNVERIFIABLE),
        (None, [], Judgement.UNVERIFIABLE),
    ],
)
def test_a_declared_parent_against_the_measured_relation(
    relation: str | None, parents: list[str], expected: str
) -> None:
    assert judge(relation, parent_root="p", measured_parents=parents) == expected


def edge(parent: str, child: str, judgement: Judgement = Judgement.CONFIRMED, *, declared: bool = True) -> Edge:
    return Edge(parent, child, f"{parent}>{child}" if declared else None, judgement)


def test_ancestry_and_descendants() -> None:
    graph = LineageGraph([edge("a", "b"), edge("b", "c"), edge("x", "c"), edge("c", "d"), edge("b", "e")])
    assert [e.parent for e in graph.ancestry("d")] == ["c", "b", "x", "a"]
    assert [e.child for e in graph.descendants("a")] == ["b", "c", "e", "d"]
    assert graph.ancestry("a") == graph.descendants("unknown") == ()


@pytest.mark.parametrize(("parent", "child"), [("a", "a"), ("b", "a"), ("d", "a"), ("d", "b")])
def test_cycles_are_refused_and_leave_no_trace(parent: str, child: str) -> None:
    graph = LineageGraph([edge("a", "b"), edge("b", "c"), edge("c", "d")])
    with pytest.raises(LineageCycle) as caught:
        graph.add(edge(parent, child))
    assert caught.value.code == "lineage_cycle"
    assert [e.parent for e in graph.ancestry("d")] == ["c", "b", "a"]
    assert graph.ancestry("a") == ()


def test_a_parent_later_than_its_child_is_refused() -> None:
    graph = LineageGraph(bound={"old": Position(5, 0), "new": Position(6, 0), "same": Position(5, 0)})
    graph.add(edge("old", "new"))
    graph.add(edge("old", "same"))
    with pytest.raises(ParentLaterThanChild) as caught:
        LineageGraph(bound={"old": Position(5, 0), "new": Position(6, 0)}).add(edge("new", "old"))
    assert caught.value.code == "parent_later_than_child"
    graph.bind("first", Position(9, 0))
    graph.bind("first", Position(4, 0))
    graph.bind("first", Position(7, 0))
    graph.add(edge("first", "old"))


def test_an_unknown_parent_is_kept_as_unverifiable() -> None:
    graph = LineageGraph([edge("nobody has seen it", "b", Judgement.UNVERIFIABLE)])
    assert graph.ancestry("b")[0].judgement is Judgement.UNVERIFIABLE


def test_a_false_claim_neither_adopts_a_model_nor_blocks_the_true_edge() -> None:
    graph = LineageGraph([edge("mine", "victim", Judgement.CONTRADICTED)])
    assert graph.ancestry("victim") == ()
    graph.add(edge("victim", "mine"))
    assert len(graph.contradicted) == 1


def test_measured_parents_that_were_not_declared_are_named() -> None:
    silent, told = edge("a", "c", declared=False), edge("b", "c")
    graph = LineageGraph([silent, told, edge("b", "c", declared=False)])
    assert graph.undeclared("c") == (silent,)


def test_a_long_line_does_not_exhaust_the_stack() -> None:
    graph = LineageGraph(bound={})
    for i in range(1500, 0, -1):
        graph.add(edge(str(i - 1), str(i)))
    assert len(graph.ancestry("1500")) == 1500
