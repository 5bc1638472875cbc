"""``lineage/v1``: this model was made from that one, and these tensors changed.

Subject: the child's ``content-root``. Each listed tensor comes with its inclusion proof under the child's root, the
parent's, or both. When more changed than can be listed, ``changed_root`` binds the whole list and the part that is
listed is drawn by digest, so that the miner does not choose what is shown (``attest.lineage``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from attest.errors import MalformedInput
from attest.predicates.fields import HEX_32, Count, Digest, Hex32, Name, NullableDigest, Predicate, Prose
from attest.record import Choice, ListOf, Nested, Nullable, Record

MAX_LISTED: Final = 1024
"""Most tensors listed with proofs; at 18 hashes each under 3 MiB of JSON."""
MAX_PATH: Final = 40
"""Longest proof: a tree of 2^40 tensors."""


class Made(StrEnum):
    """How the child was made, as declared."""

    DERIVED = "derived"
    MERGED = "merged"


@dataclass(frozen=True)
class Inclusion(Record):
    """An RFC 6962 inclusion proof; root and size of its tree stand in the statement."""

    index: Count
    path: Annotated[tuple[str, ...], ListOf(HEX_32, MAX_PATH)]


@dataclass(frozen=True)
class Place(Record):
    """A tensor's digest in one of the two models, proven."""

    digest: Hex32
    proof: Annotated[Inclusion, Nested(Inclusion)]


@dataclass(frozen=True)
class ChangedTensor(Record):
    """One tensor that changed (both places), was added (no before) or removed (no after)."""

    name: Name
    before: Annotated[Place | None, Nullable(Nested(Place))]
    after: Annotated[Place | None, Nullable(Nested(Place))]

    def agree(self) -> None:
        """Something must have changed."""
        if (self.before and self.before.digest) == (self.after and self.after.digest):
            raise MalformedInput("a tensor that did not change is listed", where="ChangedTensor", got=self.name)


@dataclass(frozen=True)
class Changes(Record):
    """How many tensors changed, and the root over all of them."""

    changed: Count
    added: Count
    removed: Count
    unchanged: Count
    changed_root: Digest
    listed: Annotated[tuple[ChangedTensor, ...], ListOf(Nested(ChangedTensor), MAX_LISTED)]

    @property
    def total(self) -> int:
        """Tensors that differ in any way."""
        return self.changed + self.added + self.removed

    def agree(self) -> None:
        """All are listed when they fit."""
        if len(self.listed) != min(self.total, MAX_LISTED):
            raise MalformedInput(
                "the list is not as long as it must be",
                where="Changes.listed",
                got=len(self.listed),
                expected=min(self.total, MAX_LISTED),
            )
        names = [tensor.name for tensor in self.listed]
        if names != sorted(set(names)):
            raise MalformedInput("listed tensors are not in strict order of name", where="Changes.listed")


@dataclass(frozen=True)
class Parent(Record):
    """The model built upon: its content root and tensor count, and the statement that claims it, if there is one."""

    statement: NullableDigest
    content_root: Digest
    tensors: Count


@dataclass(frozen=True)
class Lineage(Predicate):
    """A lineage claim: one parent; a merge makes one statement for each."""

    made: Annotated[Made, Choice(Made)]
    parent: Annotated[Parent, Nested(Parent)]
    tensors: Count
    changes: Annotated[Changes, Nested(Changes)]
    training_note: Prose
    evaluation: NullableDigest

    def agree(self) -> None:
        """Counts add up to both models, and a named parent statement is bound in the context."""
        changes = self.changes
        if changes.unchanged + changes.changed + changes.added != self.tensors:
            raise MalformedInput("counts do not add up to the child", where="Lineage.tensors", got=self.tensors)
        if changes.unchanged + changes.changed + changes.removed != self.parent.tensors:
            raise MalformedInput("counts do not add up to the parent", where="Lineage.parent", got=self.parent.tensors)
        if self.parent.statement is not None and self.parent.statement not in self.context.parents:
            raise MalformedInput(
                "the parent's statement is not in the context", where="Lineage.parent", expected=self.parent.statement
            )
