"""What an entry is: the seven fields that identify a submission, and where it stands."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from ..known.claim import BLOCK_LIMIT, EXTRINSIC_LIMIT, Claim, Role, is_commit

DOMAIN = "forensics/entry/v1"
REPO_LIMIT, REVISION_LIMIT = 400, 64  # characters a row can hold


class State(StrEnum):
    """How far an entry is, in the order in which it goes."""

    FOUND = "found"  # nobody has worked on it
    FETCHING = "fetching"
    FINGERPRINTING = "fingerprinting"
    IDENTIFYING = "identifying"  # its content is known; it waits for its turn, or is compared
    JUDGING = "judging"
    JUDGED = "judged"
    WAITING = "waiting"  # could not be had; tried again at due_at
    PARKED = "parked"  # given up on: unknown, with the reason
    REFUSED = "refused"  # the commitment names nothing that could be fetched


OPEN = (State.FOUND, State.FETCHING, State.FINGERPRINTING)
"""States in which what was committed is not known yet."""
ENDED = (State.JUDGED, State.PARKED, State.REFUSED)


@dataclass(frozen=True)
class Claimed:
    """A submission's identity. A uid is no part of it, for uids are recycled.

    Attributes:
        genesis: Genesis hash of the chain, ``0x`` and 64 hex digits.
        netuid: Subnet.
        hotkey: Who committed it (ss58, prefix 42).
        repo: Hub repository; empty when the commitment names none.
        revision: Commit, 40 hex digits; empty when the commitment names none.
        block: Block of the commitment.
        extrinsic: Index of the extrinsic in that block.
    """

    genesis: str
    netuid: int
    hotkey: str
    repo: str
    revision: str
    block: int
    extrinsic: int

    @property
    def digest(self) -> str:
        """The public id: SHA-256 over the seven fields as canonical JSON, with a domain before them."""
        fields = [self.genesis, self.netuid, self.hotkey, self.repo, self.revision, self.block, self.extrinsic]
        text = json.dumps([DOMAIN, *fields], separators=(",", ":"), ensure_ascii=True)
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def bounded(self) -> Claimed:
        """Itself, cut to what a row can hold; text that nobody could print is replaced."""
        repo = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in self.repo[:REPO_LIMIT])
        revision = "".join(
            c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in self.revision[:REVISION_LIMIT]
        )
        return replace(self, repo=repo, revision=revision)

    @property
    def position(self) -> tuple[int, int]:
        """What orders claims."""
        return self.block, self.extrinsic

    @property
    def problem(self) -> str | None:
        """Why it cannot be worked on; None when it can."""
        if not self.repo or "\N{REPLACEMENT CHARACTER}" in self.repo:
            return "invalid_commitment: names no repository"
        if not is_commit(self.revision):
            return "invalid_commitment: names no commit (40 hex digits)"
        if not (0 <= self.block < BLOCK_LIMIT and 0 <= self.extrinsic < EXTRINSIC_LIMIT):
            return "invalid_commitment: block or extrinsic out of range"
        return None

    def claim(self, path: str | None = None) -> Claim:
        """As the registry of known models takes it."""
        return Claim(
            Role.SUBMISSION,
            label=self.repo,
            hotkey=self.hotkey,
            block=self.block,
            extrinsic=self.extrinsic,
            repo=self.repo,
            revision=self.revision,
            path=path,
        )


@dataclass(frozen=True)
class Entry:
    """A submission and how far it is; the fields are those of ``store.entries.EntryRow``.

    Attributes:
        new: Whether this call made it.
    """

    id: int
    claimed: Claimed
    source: str
    state: State
    reason: str | None
    attempts: int
    begun: int
    turn: int
    queued: int
    files: str | None
    path: str | None
    identified: str | None
    content_root: str | None
    found_at: datetime
    due_at: datetime
    changed_at: datetime
    new: bool = False

    @property
    def digest(self) -> str:
        """The public id."""
        return self.claimed.digest

    @property
    def code(self) -> str | None:
        """The reason's code, without its text."""
        return None if self.reason is None else self.reason.partition(":")[0]
