"""What can be wrong, one word each; the drill table in ``docs/for-validators.md`` has one row for each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Code(StrEnum):
    """Why a reading is less than a fresh snapshot, or needs a look."""

    UNREACHABLE = "unreachable"
    """No connection, or it broke."""
    TIMED_OUT = "timed_out"
    """The answer was not complete at the deadline."""
    ERROR_STATUS = "error_status"
    """The service answered with an error."""
    REDIRECTED = "redirected"
    """Redirects are not followed: another host would see and answer what is asked here."""
    TOO_LARGE = "too_large"
    """More bytes than any snapshot has."""
    MALFORMED = "malformed"
    """Not the strict form of a snapshot."""
    BAD_SIGNATURE = "bad_signature"
    """The bytes are not what the service signed."""
    WRONG_KEY = "wrong_key"
    """Signed by somebody else."""
    WRONG_NETUID = "wrong_netuid"
    """For another subnet."""
    WRONG_CHAIN = "wrong_chain"
    """For another chain."""
    WRONG_LOG = "wrong_log"
    """Refers to another log."""
    ROLLED_BACK = "rolled_back"
    """Older than one that was seen, here or by another process that shares the cache."""
    EQUIVOCATION = "equivocation"
    """Two snapshots under one number, or a log that shrank: both are signed, both are kept."""
    EXPIRED = "expired"
    """What is at hand counts no longer."""
    NOTHING_YET = "nothing_yet"
    """No snapshot was ever seen."""
    CLOCK_BEHIND = "clock_behind"
    """The clock here is before the time at which the service signed."""
    CACHE_DAMAGED = "cache_damaged"
    """A file of the cache is not what was written."""
    CACHE_UNWRITABLE = "cache_unwritable"
    """The cache cannot be written: full disk, permissions, or another process holds it."""
    PARTIAL = "partial"
    """Registered uids are missing from the snapshot."""
    PLAIN_HTTP = "plain_http"
    """Not encrypted: nobody can change what is read, but anybody on the way can withhold it."""
    NOT_LOGGED = "not_logged"
    """The receipt does not show the snapshot in the service's log."""


REFUSALS: Final = frozenset(
    {
        Code.REDIRECTED,
        Code.TOO_LARGE,
        Code.MALFORMED,
        Code.BAD_SIGNATURE,
        Code.WRONG_KEY,
        Code.WRONG_NETUID,
        Code.WRONG_CHAIN,
        Code.WRONG_LOG,
        Code.ROLLED_BACK,
        Code.EQUIVOCATION,
    }
)
"""Answers that came and were not believed: somebody is lying or misconfigured, and should be asked."""
QUIET: Final = frozenset({Code.PLAIN_HTTP})
"""Worth saying once, not an alarm."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, for programs and for people."""

    code: Code
    detail: str

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"
