"""What is known about a model besides its weights: who claims it, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ..errors import UsageError

REVISION_DIGITS = 40  # a git commit; branch names move and are refused
BLOCK_LIMIT = 1 << 62
EXTRINSIC_LIMIT = 1 << 31
TEXT_LIMIT = 400


class Role(StrEnum):
    """Whose a model is: a public base that anyone may start from, or somebody's submission."""

    BASE = "base"
    SUBMISSION = "submission"


@dataclass(frozen=True)
class Claim:
    """A claim as it is made. ``block`` and ``extrinsic`` order claims; None where they are not known.

    Attributes:
        role: Base or submission.
        label: A name for people.
        hotkey: Who claims it (ss58, prefix 42).
        block: Block at which it was claimed.
        extrinsic: Index of the extrinsic in that block.
        repo: Hub repository.
        revision: Commit, 40 hex digits.
        path: Folder or file on this machine, when the weights are at hand.
    """

    role: Role
    label: str = ""
    hotkey: str | None = None
    block: int | None = None
    extrinsic: int | None = None
    repo: str | None = None
    revision: str | None = None
    path: str | None = None

    def checked(self) -> Claim:
        """Itself, when every field is in range.

        Raises:
            UsageError: A field is out of range; names the option.
        """
        _in_range(self.block, "--block", BLOCK_LIMIT)
        _in_range(self.extrinsic, "--extrinsic", EXTRINSIC_LIMIT)
        if self.extrinsic is not None and self.block is None:
            raise UsageError("an extrinsic index needs its block", where="--extrinsic", remedy="Give --block too.")
        if self.revision is not None and not is_commit(self.revision):
            raise UsageError(
                "a revision must be a commit, for a branch moves",
                where="--revision",
                got=self.revision[:60],
                expected=f"{REVISION_DIGITS} hex digits",
            )
        for text, option in ((self.label, "--label"), (self.repo, "--repo")):
            if text is not None and len(text) > TEXT_LIMIT:
                raise UsageError("too long", where=option, got=len(text), expected=f"at most {TEXT_LIMIT} characters")
        return self


@dataclass(frozen=True)
class Submission:
    """A claim as it was registered."""

    id: int
    claim: Claim
    added_at: datetime
    withdrawn_at: datetime | None = None
    withdrawn_reason: str | None = None

    @property
    def active(self) -> bool:
        """Whether it still stands."""
        return self.withdrawn_at is None


@dataclass(frozen=True)
class KnownModel:
    """Content that is known, with every claim to it in the order they were registered."""

    id: int
    content_root: str
    nameless_root: str
    value_root: str
    algorithm: str
    family: str
    parameters: int
    blob: str
    blob_size: int
    submissions: tuple[Submission, ...]

    @property
    def earliest(self) -> Submission | None:
        """The claim that counts: earliest of those that stand."""
        return earliest(self.submissions)

    @property
    def is_base(self) -> bool:
        """Whether it is public, so that starting from it is nobody's loss."""
        return any(s.active and s.claim.role is Role.BASE for s in self.submissions)


def precedence(submission: Submission) -> tuple[int, int, int, int]:
    """Sort key of claims: bases, then by (block, extrinsic); those without a block come last.

    The registration id only makes the order total: it is no evidence of priority.
    """
    claim = submission.claim
    if claim.role is Role.BASE:
        return (0, -1, -1, submission.id)
    if claim.block is None:
        return (2, 0, 0, submission.id)
    return (1, claim.block, EXTRINSIC_LIMIT if claim.extrinsic is None else claim.extrinsic, submission.id)


def earliest(submissions: Iterable[Submission]) -> Submission | None:
    """The claim that counts, or None when none stands."""
    return min((s for s in submissions if s.active), key=precedence, default=None)


def is_commit(revision: str) -> bool:
    """Whether ``revision`` is a full commit id."""
    return len(revision) == REVISION_DIGITS and not set(revision) - set("0123456789abcdef")


def _in_range(value: int | None, option: str, limit: int) -> None:
    if value is not None and not 0 <= value < limit:
        raise UsageError("out of range", where=option, got=value, expected=f"0 to {limit - 1}")
