"""What a commitment says: which model at which commit, or which sealed claim. Everything else is malformed.

What miners put on chain is hostile text of any kind. It is bounded before it is parsed and refused with a word that
does not change, so that a hotkey's state can be shown; it never raises anything else. Forms:

- ``json``: ``{"model": "owner/name", "revision": "<40 hex>"}``, as on the Affine subnet; further members are ignored.
- ``text``: ``owner/name@<40 hex>``.
- ``sealed``: ``sha256:<64 hex>``, digest of a sealed claim (``attest.claims``): it names no model until it is opened.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from fingerprint.checkpoint.limits import DEFAULT_LIMITS
from fingerprint.checkpoint.strict_json import parse_object
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint

from ..errors import CommitMalformed, UsageError
from ..hub.reference import is_repo, is_revision

MAX_BYTES: Final = 1_024
"""A timelocked commitment takes 1,024 bytes (Commitments pallet), an open one 3 x 128."""
_LIMITS: Final = replace(DEFAULT_LIMITS, json_commas=64, json_containers=16, json_depth=4)
_SEALED: Final = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
_SHOWN: Final = 60


class Form(StrEnum):
    """A form that a commitment may have."""

    JSON = "json"
    TEXT = "text"
    SEALED = "sealed"


@dataclass(frozen=True)
class Rules:
    """What a competition asks of commitments.

    Args:
        forms: Forms that are understood.
        one_commit: A hotkey names one model, ever.
        hotkey_suffix: The repository's name ends in the hotkey.
        registrant_commits: The hotkey that registered the uid is the one that commits: no swap in between.
        max_bytes: Length of a commitment.
    """

    forms: tuple[Form, ...] = (Form.JSON, Form.SEALED)
    one_commit: bool = False
    hotkey_suffix: bool = False
    registrant_commits: bool = False
    max_bytes: int = MAX_BYTES

    @classmethod
    def of(cls, words: str) -> Rules:
        """Rules by their names, comma-separated: ``affine``, or forms and rules such as ``json,sealed,one_commit``.

        Raises:
            UsageError: An unknown word.
        """
        found = [word.strip() for word in words.split(",") if word.strip()]
        if not found:
            return cls()
        if found == ["affine"]:
            return AFFINE
        flags = ("one_commit", "hotkey_suffix", "registrant_commits")
        unknown = [word for word in found if word not in (*Form, *flags)]
        if unknown:
            expected = ", ".join(("affine", *Form, *flags))
            raise UsageError("unknown rule", where="setting commit_rules", got=unknown[0], expected=expected)
        forms = tuple(form for form in Form if form in found) or cls().forms
        return cls(forms=forms, **{flag: flag in found for flag in flags})


AFFINE: Final = Rules(one_commit=True, hotkey_suffix=True, registrant_commits=True)
"""What the Affine subnet asks (netuid 120)."""


@dataclass(frozen=True)
class Named:
    """A model at a commit."""

    repo: str
    revision: str


@dataclass(frozen=True)
class SealedClaim:
    """A digest of a sealed claim, ``sha256:`` and 64 hex digits."""

    digest: str


class Malformed(StrEnum):
    """Why a commitment says nothing; stable words."""

    EMPTY = "empty"
    TOO_LONG = "too_long"
    NOT_TEXT = "not_text"
    NOT_JSON = "not_json"
    FORM = "form_not_allowed"
    MEMBER = "member_missing"
    REPO = "bad_repo"
    REVISION = "bad_revision"


def parse(data: bytes, rules: Rules | None = None) -> Named | SealedClaim:
    """What a commitment says.

    Args:
        data: Raw bytes as they stand on chain.
        rules: Forms that are understood; the default ones when not given.

    Raises:
        CommitMalformed: It says nothing; ``kind`` is a word of ``Malformed``.
    """
    rules = rules or Rules()
    if not data:
        raise _malformed(Malformed.EMPTY, data, "something")
    if len(data) > rules.max_bytes:
        raise _malformed(Malformed.TOO_LONG, data, f"at most {rules.max_bytes} bytes")
    try:
        text = data.decode("utf-8").strip(" \t\r\n")
    except UnicodeDecodeError:
        raise _malformed(Malformed.NOT_TEXT, data, "UTF-8") from None
    form = Form.SEALED if _SEALED.fullmatch(text) else Form.JSON if text.startswith("{") else Form.TEXT
    if form not in rules.forms:
        raise _malformed(Malformed.FORM, data, " or ".join(rules.forms))
    if form is Form.SEALED:
        return SealedClaim(text)
    if form is Form.JSON:
        document = _document(text.encode(), data)
        return _named(document.get("model"), document.get("revision"), data)
    repo, _, revision = text.rpartition("@")
    return _named(repo, revision, data)


def _document(text: bytes, data: bytes) -> dict[str, Any]:
    try:
        return parse_object(text, where="commitment", limits=_LIMITS, max_bytes=len(text))
    except (MalformedCheckpoint, CheckpointTooLarge) as error:
        raise _malformed(Malformed.NOT_JSON, data, f"one strict JSON object ({error.what})") from None


def _named(repo: Any, revision: Any, data: bytes) -> Named:
    if not isinstance(repo, str) or not isinstance(revision, str):
        raise _malformed(Malformed.MEMBER, data, "members model and revision, both text")
    if not is_repo(repo):
        raise _malformed(Malformed.REPO, data, "owner/name")
    if not is_revision(revision):
        raise _malformed(Malformed.REVISION, data, "a commit, 40 lower-case hex digits")
    return Named(repo, revision)


def _malformed(kind: Malformed, data: bytes, expected: str) -> CommitMalformed:
    shown = data[:_SHOWN].decode("utf-8", "backslashreplace")
    error = CommitMalformed(
        "the commitment names no model",
        where=str(kind),
        got=shown + ("..." if len(data) > _SHOWN else ""),
        expected=expected,
        remedy="Unknown is not guilty: commit again in the form the competition asks for.",
    )
    error.kind = str(kind)
    return error
