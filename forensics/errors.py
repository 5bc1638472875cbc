"""Everything the service raises, as one tree, and the exit code each branch leaves with.

ForensicsError
├── UsageError             the command line asks for something that makes no sense     (exit 2)
├── BadInput               what was handed in is damaged, hostile or contradictory     (exit 3)
│   ├── EvidenceError      an evidence bundle that cannot be trusted
│   ├── ReplayMismatch     an intact bundle that no longer gives the same result
│   ├── NotKnown           no such model in the registry
│   ├── PolicyInvalid      a policy file with an unknown key, a wrong value, or one that a hard rule forbids
│   ├── AnchorInvalid      a digest that is not on the chain where it is said to be
│   ├── ChainForked        a node whose final blocks are not those that were read before
│   ├── CommitMalformed    a commitment on chain that names no model
│   └── StoreCorrupt       a stored blob or database contradicts its own digest or schema
└── Unavailable            nothing wrong with the input; try again or elsewhere        (exit 4)
    ├── StoreUnavailable   database or blobs cannot be read or written (locked, full, absent, older schema)
    └── ChainUnavailable   no node answers, or it does not have what was asked for
        ├── ChainPruned    a node answers that has forgotten the block that was asked for
        └── ChainRefused   the chain answered, and would not take what was sent

``fingerprint.errors`` and ``attest.errors`` map onto the same codes: absent files are exit 4, everything else in both
trees is exit 3. Each error carries what, where, got, expected and remedy, so that it can be acted on as text and as
JSON.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from attest.errors import AttestError
from fingerprint.errors import CheckpointUnavailable, FingerprintError


class Exit(IntEnum):
    """Exit codes of the stable contract (design/1-architecture, Command line), and two that shells define."""

    CLEAN = 0
    FINDING = 1
    USAGE = 2
    BAD_INPUT = 3
    UNAVAILABLE = 4
    INTERRUPTED = 130  # 128 + SIGINT
    BROKEN_PIPE = 141  # 128 + SIGPIPE: the reader of our output went away


class ForensicsError(Exception):
    """Base of the tree; ``str()`` is one line a person can act on.

    Args:
        what: What is wrong, in a few words.
        where: File, field or option that is at fault.
        got: The value found.
        expected: The value or range that would have been accepted.
        remedy: What the user can do next.
    """

    exit: Exit = Exit.UNAVAILABLE

    def __init__(
        self, what: str, *, where: str = "", got: object = "", expected: object = "", remedy: str = ""
    ) -> None:
        self.what, self.where, self.remedy = what, where, remedy
        self.got, self.expected = str(got), str(expected)
        super().__init__(_line(what, where, self.got, self.expected, remedy))


class UsageError(ForensicsError):
    """The command line asks for something that makes no sense."""

    exit = Exit.USAGE


class BadInput(ForensicsError):
    """What was handed in is damaged, hostile or contradictory."""

    exit = Exit.BAD_INPUT


class EvidenceError(BadInput):
    """An evidence bundle that cannot be trusted: damaged, hostile or from another version."""


class ReplayMismatch(BadInput):
    """An intact bundle that does not give the recorded result here; the message names what differs."""


class NotKnown(BadInput):
    """No such model in the registry."""


class PolicyInvalid(BadInput):
    """A policy file that is not understood to the last key, or that asks for what a hard rule forbids."""


class AnchorInvalid(BadInput):
    """A digest that is not on the chain where it is said to be: never was, or a reorganisation removed it."""


class ChainForked(BadInput):
    """A node whose final blocks are not those that were read before: another chain, or a node that lies."""


class CommitMalformed(BadInput):
    """A commitment on chain that names no model; ``kind`` says why, as a word that does not change."""

    kind = "malformed_commitment"


class StoreCorrupt(BadInput):
    """A stored blob or database contradicts its own digest or schema."""


class Unavailable(ForensicsError):
    """Nothing wrong with the input; it cannot be answered here and now. Unknown is not guilty."""


class StoreUnavailable(Unavailable):
    """Database or blobs cannot be read or written: locked, full, absent or of another schema."""


class ChainUnavailable(Unavailable):
    """No node answers, or it does not have what was asked for. The log goes on without it."""


class ChainPruned(ChainUnavailable):
    """The node answers, and no longer has the state of the block that was asked for: an archive node does."""


class ChainRefused(ChainUnavailable):
    """The chain answered, and would not take what was sent: hotkey not registered, quota used up, no funds."""


def exit_code(error: Exception) -> Exit:
    """The contract's exit code for any error of the three trees."""
    if isinstance(error, ForensicsError):
        return error.exit
    return Exit.UNAVAILABLE if isinstance(error, CheckpointUnavailable) else Exit.BAD_INPUT


def code_of(error: Exception) -> str:
    """Its stable name: ``StoreCorrupt`` is ``store_corrupt``; ``attest`` and the hub bring codes along."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else _code(type(error).__name__)


def document(error: ForensicsError | FingerprintError | AttestError) -> dict[str, Any]:
    """The JSON document an error becomes under ``--json``."""
    return {
        "error": {
            "code": code_of(error),
            "message": str(error),
            "where": error.where,
            "got": str(error.got),
            "expected": str(error.expected),
            "remedy": error.remedy,
        }
    }


def _line(what: str, where: str, got: str, expected: str, remedy: str) -> str:
    parts = [f"{where}: {what}" if where else what]
    parts += [f"got {got}"] if got else []
    parts += [f"expected {expected}"] if expected else []
    line = ", ".join(parts)
    return f"{line}. {remedy}" if remedy else line


def _code(name: str) -> str:
    """``StoreCorrupt`` becomes ``store_corrupt``: stable, machine-readable."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
