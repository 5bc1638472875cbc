from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.log.errors import ProofInvalid
from attest.log.merkle import (
    EMPTY_ROOT,
    Accumulator,
    hash_leaf,
    hash_node,
    prove_consistency,
    prove_inclusion,
    root_of,
    tree_root,
    verify_consistency,
    verify_inclusion,
)

DATA = Path(__file__).parents[2] / "data" / "attest"
PROOFS = json.loads((DATA / "rfc6962_proofs.json").read_text())["vectors"]
TREE = json.loads((DATA / "vectors.json").read_text())["rfc6962_ct_tree"]
LEAVES = [hash_leaf(bytes.fromhex(leaf)) for leaf in TREE["leaves_hex"]]
SIZES = st.integers(1, 130)


def perfect(leaves):
    """Subtrees straight from the definition: the slow, obvious way."""

    def nodes(level, index):
        return root_of(leaves[index << level : (index + 1) << level])

    return nodes


def decoded(values):
    return [base64.b64decode(value) for value in values or []]


def accepts(check, *arguments):
    try:
        check(*arguments)
    except ProofInvalid:
        return False
    return True


@pytest.mark.parametrize("name", PROOFS["inclusion"])
def test_inclusion_vectors(name):
    case = PROOFS["inclusion"][name]
    leaf, root = base64.b64decode(case["leafHash"]), base64.b64decode(case["root"])
    found = accepts(verify_inclusion, leaf, case["leafIdx"], case["treeSize"], decoded(case["proof"]), root)
    assert found is not case["wantErr"]


@pytest.mark.parametrize("name", PROOFS["consistency"])
def test_consistency_vectors(name):
    case = PROOFS["consistency"][name]
    roots = [base64.b64decode(case[key] or "") for key in ("root1", "root2")]
    found = accepts(verify_consistency, case["size1"], case["size2"], decoded(case["proof"]), *roots)
    assert found is not case["wantErr"]


def test_there_are_as_many_vectors_as_were_published():
    assert (len(PROOFS["inclusion"]), len(PROOFS["consistency"])) == (98, 98)


def test_the_roots_of_the_reference_tree():
    tree = Accumulator()
    roots = [tree.root()]
    for leaf in LEAVES:
        tree.append(leaf)
        roots.append(tree.root())
    assert [root.hex() for root in roots] == TREE["roots_hex"]


@pytest.mark.parametrize("case", TREE["inclusion"], ids=str)
def test_the_audit_paths_of_the_reference_tree(case):
    path = prove_inclusion(case["index"], case["size"], perfect(LEAVES))
    assert [node.hex() for node in path] == case["path"]


@pytest.mark.parametrize("case", TREE["consistency"], ids=str)
def test_the_consistency_proofs_of_the_reference_tree(case):
    proof = prove_consistency(case["old"], case["new"], perfect(LEAVES))
    assert [node.hex() for node in proof] == case["proof"]


@given(SIZES, st.data())
@settings(max_examples=60, deadline=None)
def test_every_proof_verifies_and_no_mangled_one_does(size, data):
    leaves = [hash_leaf(bytes([i])) for i in range(size)]
    index = data.draw(st.integers(0, size - 1))
    root, path = root_of(leaves), prove_inclusion(index, size, perfect(leaves))
    assert tree_root(size, perfect(leaves)) == root
    verify_inclusion(leaves[index], index, size, path, root)
    for wrong in mangled(path, data):
        assert not accepts(verify_inclusion, leaves[index], index, size, wrong, root)
    for other in {index - 1, index + 1, index + size, size} - {index}:
        assert not accepts(verify_inclusion, leaves[index], other, size, path, root)


@given(SIZES, st.data())
@settings(max_examples=60, deadline=None)
def test_every_prefix_is_consistent_and_no_other_tree_is(size, data):
    leaves = [hash_leaf(bytes([i])) for i in range(size)]
    old = data.draw(st.integers(1, size))
    roots = root_of(leaves[:old]), root_of(leaves)
    proof = prove_consistency(old, size, perfect(leaves))
    verify_consistency(old, size, proof, *roots)
    for wrong in mangled(proof, data):
        assert not accepts(verify_consistency, old, size, wrong, *roots)
    if old < size:
        forked = root_of([*leaves[: old - 1], hash_leaf(b"forged"), *leaves[old:]])
        assert not accepts(verify_consistency, old, size, proof, roots[0], forked)
        assert not accepts(verify_consistency, old, size, proof, roots[1], roots[1])


def mangled(path, data):
    """The proof with a node too many, too few, changed or moved."""
    yield [*path, EMPTY_ROOT]
    yield [EMPTY_ROOT, *path]
    if path:
        at = data.draw(st.integers(0, len(path) - 1))
        yield path[:at] + path[at + 1 :]
        yield [*path[:at], bytes([path[at][0] ^ 1]) + path[at][1:], *path[at + 1 :]]
        yield [*path[:at], path[at][:-1], *path[at + 1 :]]
    if len(path) > 1:
        yield path[::-1]


def test_the_empty_tree_is_consistent_with_itself_only():
    verify_consistency(0, 0, [], EMPTY_ROOT, EMPTY_ROOT)
    with pytest.raises(ProofInvalid, match="nothing to prove"):
        verify_consistency(0, 8, [], EMPTY_ROOT, root_of(LEAVES))


def test_an_inner_node_is_no_leaf():
    root = root_of(LEAVES)
    inner = hash_node(LEAVES[0], LEAVES[1])
    path = prove_inclusion(0, 8, perfect(LEAVES))[1:]
    for size in (4, 8):
        assert not accepts(verify_inclusion, inner, 0, size, path, root_of(LEAVES[:size]))
    assert hash_leaf(LEAVES[0] + LEAVES[1]) != inner
    assert root != EMPTY_ROOT


@pytest.mark.parametrize(("index", "size"), [(0, 0), (8, 8), (-1, 8), (0, -1), (2**64 - 1, 8), (0, 2**63)])
def test_an_index_outside_the_tree_is_refused_and_named(index, size):
    with pytest.raises(ProofInvalid, match=r"index outside|not a tree size") as caught:
        verify_inclusion(LEAVES[0], index, size, [], EMPTY_ROOT)
    assert caught.value.code == "proof_invalid"


def test_a_restored_accumulator_must_have_the_peaks_of_its_size():
    with pytest.raises(ProofInvalid, match="wrong number"):
        Accumulator(3, [EMPTY_ROOT])
