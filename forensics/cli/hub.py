"""Hub references: ``owner/name@revision``, read from the local cache of the hub's own client when it has them.

A revision is a full commit. ``main`` moves: a verdict about it would be about nothing in particular, so it is
refused. Nothing is downloaded here.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from fingerprint.errors import CheckpointUnavailable

from ..errors import UsageError
from ..known.claim import REVISION_DIGITS, is_commit

_REFERENCE = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})@(?P<revision>.*)", re.ASCII | re.DOTALL
)


@dataclass(frozen=True)
class HubReference:
    """A repository at a commit."""

    repo: str
    revision: str

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision}"


def parse(text: str) -> HubReference | None:
    """The reference ``text`` is, or None when it does not look like one.

    Raises:
        UsageError: It looks like one, but the revision is not a full commit.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return None
    if not is_commit(match["revision"]):
        raise UsageError(
            "a revision must be a commit, for a branch or tag moves",
            where=match["repo"],
            got=match["revision"][:60] or "nothing",
            expected=f"{REVISION_DIGITS} lower-case hex digits",
        )
    return HubReference(match["repo"], match["revision"])


def cached(reference: HubReference) -> Path:
    """The snapshot folder of ``reference`` in the local hub cache.

    Raises:
        CheckpointUnavailable: It is not there.
    """
    folder = _cache() / f"models--{reference.repo.replace('/', '--')}" / "snapshots" / reference.revision
    if folder.is_dir():
        return folder
    raise CheckpointUnavailable(
        "not in the local hub cache, and this version does not download",
        where=str(reference),
        expected=str(folder),
        remedy=f"Download it first: `hf download {reference.repo} --revision {reference.revision}`.",
    )


def _cache() -> Path:
    """Where huggingface_hub keeps its cache, by the variables it documents."""
    for variable, below in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")):
        if value := os.environ.get(variable):
            return Path(value).expanduser() / below
    return Path.home() / ".cache" / "huggingface" / "hub"
