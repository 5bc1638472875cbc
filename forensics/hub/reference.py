"""Hub references: ``owner/name@revision``.

A revision is a full commit. ``main`` moves: a verdict about it would be about nothing in particular, so it is refused.
Names follow the hub's own rules (huggingface_hub, ``validate_repo_id``), with the owner always said; none of them can
leave a folder when it is made a path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ..errors import UsageError

REVISION_DIGITS: Final = 40
MAX_REPO: Final = 96
_PART: Final = r"[A-Za-z0-9](?:[\w.-]{0,94}[\w])?"
_REPO: Final = re.compile(rf"{_PART}/{_PART}", re.ASCII)
_LOOSE: Final = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})@(?P<revision>.*)", re.ASCII | re.DOTALL
)
_REVISION: Final = re.compile(r"[0-9a-f]{40}", re.ASCII)


@dataclass(frozen=True, order=True)
class HubReference:
    """A repository at a commit; a reference that exists is well formed.

    Raises:
        ValueError: The repository's name or the revision is not.
    """

    repo: str
    revision: str

    def __post_init__(self) -> None:
        if not is_repo(self.repo) or not is_revision(self.revision):
            raise ValueError("no hub reference")

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision}"


def is_repo(text: str) -> bool:
    """Whether a text is the name of a repository, ``owner/name``."""
    return (
        len(text) <= MAX_REPO
        and _REPO.fullmatch(text) is not None
        and not any(bad in text for bad in ("--", ".."))
        and not text.lower().endswith((".git", ".ipynb"))
    )


def is_revision(text: str) -> bool:
    """Whether a text is a full commit, 40 lower-case hex digits."""
    return _REVISION.fullmatch(text) is not None


def parse(text: str) -> HubReference | None:
    """The reference ``text`` is, or None when it does not look like one.

    Raises:
        UsageError: It looks like one, but the revision is not a full commit.
    """
    match = _LOOSE.fullmatch(text)
    if match is None or not is_repo(match["repo"]):
        return None
    if not is_revision(match["revision"]):
        raise UsageError(
            "a revision must be a commit, for a branch or tag moves",
            where=match["repo"],
            got=match["revision"][:60] or "nothing",
            expected=f"{REVISION_DIGITS} lower-case hex digits",
        )
    return HubReference(match["repo"], match["revision"])
