"""Lineage claims: which tensors changed, proven under both content roots, and what a service may say about them.

A content root is the RFC 6962 tree over ``lp(name) | digest`` in order of name (``lp``: u64 little-endian length
prefix). So one inclusion proof shows that a tensor of that name and digest is in the model. Proofs show what is
listed; that nothing else changed is seen by whoever has both lists of digests (``check_complete``), and whether the
child truly descends from the parent is measured on the weights (``judge``).

When more tensors changed than can be listed, the listed ones are those with the smallest SHA-256(changed_root |
name): neither the miner nor a grinder of names can pick what is shown without changing what is bound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

from attest.checking import Checked, Expected, check
from attest.envelope import Envelope
from attest.errors import ContentMismatch, InputTooLarge, LineageError
from attest.log.errors import ProofInvalid
from attest.log.merkle import hash_leaf, prove_inclusion, root_of, verify_inclusion
from attest.predicates import Context, Lineage
from attest.predicates.lineage import MAX_LISTED, ChangedTensor, Changes, Inclusion, Made, Parent, Place
from attest.statement import CONTENT_ROOT, Statement, state

MAX_TENSORS: Final = 1_000_000
"""Most tensors of one model; ten times what the fingerprint's reader takes."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """A model's tensors by name, with the Merkle tree over them.

    Args:
        digests: Hex SHA-256 by tensor name.
    """

    digests: Mapping[str, str]

    def __post_init__(self) -> None:
        if len(self.digests) > MAX_TENSORS:
            raise InputTooLarge("too many tensors", where="lineage", got=len(self.digests), expected=MAX_TENSORS)

    @property
    def root(self) -> str:
        """Content root, ``sha256:`` text; the same as the fingerprint's."""
        return "sha256:" + root_of(hash_leaf(leaf(n, d)) for n, d in sorted(self.digests.items())).hex()


class _Tree:
    """All levels of perfect subtrees over one model's leaves: 2 hashes a tensor, then proofs by look-up."""

    def __init__(self, tensors: Tensors) -> None:
        names = sorted(tensors.digests)
        self._index = {name: i for i, name in enumerate(names)}
        self._digests = tensors.digests
        self._levels = [[hash_leaf(leaf(name, tensors.digests[name])) for name in names]]
        while len(self._levels[-1]) > 1:
            below = self._levels[-1]
            pairs = zip(below[::2], below[1::2], strict=False)
            self._levels.append([sha256(b"\x01" + left + right).digest() for left, right in pairs])

    def place(self, name: str) -> Place | None:
        """Digest and proof of a tensor; None when the model has none of that name."""
        index = self._index.get(name)
        if index is None:
            return None
        path = prove_inclusion(index, len(self._index), lambda level, i: self._levels[level][i])
        proof = Inclusion(index=index, path=tuple(node.hex() for node in path))
        return Place(digest=self._digests[name], proof=proof)


def leaf(name: str, digest: str) -> bytes:
    """Leaf of the content root: length-prefixed name, then the 32 bytes of the digest."""
    raw = name.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw + bytes.fromhex(digest)


def compare(parent: Tensors, child: Tensors) -> Changes:
    """Counts, the root over all that changed, and the listed part of it with proofs.

    Raises:
        LineageError: Nothing changed: a copy is not a child.
    """
    names = _changed_names(parent, child)
    if not names:
        raise LineageError("parent and child hold the same tensors", where="lineage", got=child.root)
    changed_root = _changed_root(parent, child, names)
    before, after = _Tree(parent), _Tree(child)
    listed = tuple(
        ChangedTensor(name=name, before=before.place(name), after=after.place(name))
        for name in _listed(names, changed_root)
    )
    both = sum(name in parent.digests and name in child.digests for name in names)
    added = sum(name not in parent.digests for name in names)
    return Changes(
        changed=both,
        added=added,
        removed=len(names) - both - added,
        unchanged=len(child.digests) - both - added,
        changed_root=changed_root,
        listed=listed,
    )


def descend(
    context: Context,
    parent: Tensors,
    child: Tensors,
    *,
    made: Made = Made.DERIVED,
    parent_statement: str | None = None,
    training_note: str = "",
    evaluation: str | None = None,
) -> Statement:
    """The statement of a lineage claim, to be signed by the context's hotkey.

    Args:
        context: Names the parent's statement among its parents when there is one.
        parent: The model built upon.
        child: The model made.
        made: Derived by training, or merged.
        parent_statement: Digest of the ownership statement of the parent.
        training_note: Text for people.
        evaluation: Digest of an evaluation report.
    """
    predicate = Lineage(
        context=context,
        made=made,
        parent=Parent(statement=parent_statement, content_root=parent.root, tensors=len(parent.digests)),
        tensors=len(child.digests),
        changes=compare(parent, child),
        training_note=training_note,
        evaluation=evaluation,
    )
    return state(predicate, content_root=child.root)


def check_lineage(received: bytes | Envelope, *, expected: Expected, where: str = "lineage") -> Checked[Lineage]:
    """Verify signatures, context and every inclusion proof of a lineage claim.

    Raises:
        LineageError: A model named as its own parent, or a proof that does not lead to its root.
        AttestError: See ``attest.checking.check``.
    """
    claim = check(received, Lineage, expected=expected, where=where)
    said, child_root = claim.predicate, claim.statement.digest_of(CONTENT_ROOT) or ""
    if said.parent.content_root == child_root:
        raise LineageError("a model is named as its own parent", where=where, got=child_root)
    for tensor in said.changes.listed:
        for place, root, size in (
            (tensor.before, said.parent.content_root, said.parent.tensors),
            (tensor.after, child_root, said.tensors),
        ):
            if place is not None:
                _check_place(tensor.name, place, root, size, where)
    return claim


def check_complete(said: Lineage, *, child_root: str, parent: Tensors, child: Tensors) -> None:
    """Compare a claim with both lists of digests: are these the models, and are these all the changes?

    Args:
        said: The checked claim's predicate.
        child_root: Its ``content-root`` subject.
        parent: Measured from the parent's files.
        child: Measured from the child's files.

    Raises:
        ContentMismatch: The claim speaks of other models, or of other changes.
    """
    for name, claimed, measured in (
        ("the parent's root", said.parent.content_root, parent.root),
        ("the child's root", child_root, child.root),
        ("the list of changes", said.changes, compare(parent, child)),
    ):
        if claimed != measured:
            raise ContentMismatch(f"{name} is not what the files say", where="lineage", got=measured, expected=claimed)


class Judgement(StrEnum):
    """A service's answer to a declared lineage."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    UNVERIFIABLE = "unverifiable"


DESCENDS: Final = frozenset({"identical", "equivalent", "perturbed", "derived", "partial"})
"""Relations of a child to its declared parent that confirm descent; whether it is a copy is judged elsewhere."""
CONTRADICTS: Final = frozenset({"independent", "sibling"})
"""Relations that rule it out: no common origin, or neither from the other."""


def judge(relation: str | None, *, parent_root: str, measured_parents: Sequence[str] = ()) -> Judgement:
    """Compare a declared parent with the measured relation of the child to it.

    Args:
        relation: The measured relation by its name; None when it could not be measured (an unknown parent).
        parent_root: Content root of the declared parent.
        measured_parents: Content roots of the models of a measured merge.

    Returns:
        ``merged`` confirms exactly the parents it names. ``inconclusive`` and unknown words never contradict.
    """
    if relation in DESCENDS or (relation == "merged" and parent_root in measured_parents):
        return Judgement.CONFIRMED
    return Judgement.CONTRADICTED if relation in CONTRADICTS else Judgement.UNVERIFIABLE


def _check_place(name: str, place: Place, root: str, size: int, where: str) -> None:
    try:
        verify_inclusion(
            hash_leaf(leaf(name, place.digest)),
            place.proof.index,
            size,
            [bytes.fromhex(node) for node in place.proof.path],
            bytes.fromhex(root.removeprefix("sha256:")),
        )
    except ProofInvalid as error:
        raise LineageError(
            "a tensor is not proven to be in the model", where=f"{where}: {name}", got=error.what, expected=root
        ) from None


def _changed_names(parent: Tensors, child: Tensors) -> list[str]:
    names = sorted(parent.digests.keys() | child.digests.keys())
    return [name for name in names if parent.digests.get(name) != child.digests.get(name)]


def _changed_root(parent: Tensors, child: Tensors, names: Iterable[str]) -> str:
    """Root over ``lp(name) | before | after`` of all changed tensors; 32 zero bytes stand for an absent one."""
    absent = bytes(32).hex()
    leaves = (
        leaf(name, parent.digests.get(name, absent)) + bytes.fromhex(child.digests.get(name, absent)) for name in names
    )
    return "sha256:" + root_of(hash_leaf(body) for body in leaves).hex()


def _listed(names: Sequence[str], changed_root: str) -> list[str]:
    seed = bytes.fromhex(changed_root.removeprefix("sha256:"))
    drawn = sorted(names, key=lambda name: sha256(seed + name.encode("utf-8")).digest())
    return sorted(drawn[:MAX_LISTED])
