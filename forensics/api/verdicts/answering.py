"""What a verdict read is answered with: found, not modified, or not there (RFC 9110, conditional requests)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from attest.errors import AttestError
from attest.keys import ss58

from ..problems import Problem
from .newest import Newest
from .pages import Headers, Held, Page

MAX_NETUID: Final = 0xFFFF
_GZIP: Final = re.compile(rb"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q\s*=\s*(?:1(?:\.0*)?|0\.\d*[1-9]\d*))?\s*(?:,|$)")
_TAG: Final = re.compile(rb'(?:W/)?("[^"]*")')


@dataclass(frozen=True, slots=True)
class Reply:
    """Status, headers and body of an answer."""

    status: int
    headers: Headers
    body: bytes


def reply(page: Page, if_none_match: bytes | None) -> Reply:
    """The page, or 304 when the caller has it."""
    if if_none_match is not None and (if_none_match == page.etag or _matches(if_none_match, page.etag)):
        return Reply(304, page.bare, b"")
    return Reply(200, page.headers, page.body)


def choose(held: Held, accept_encoding: bytes | None, if_none_match: bytes | None) -> Page:
    """The form of a snapshot for this caller; one that the caller has already is preferred."""
    if accept_encoding is None or not _GZIP.search(accept_encoding):
        return held.plain
    if if_none_match is not None and _matches(if_none_match, held.plain.etag):
        return held.plain
    return held.packed


async def snapshot(newest: Newest, netuid: int, *, accept_encoding: bytes | None, if_none_match: bytes | None) -> Reply:
    """All verdicts of a subnet.

    Raises:
        Problem: 404.
        StoreUnavailable: Nothing is held, and the database does not answer.
    """
    held = await _held(newest, netuid)
    return reply(choose(held, accept_encoding, if_none_match), if_none_match)


async def single(newest: Newest, netuid: int, hotkey: str, *, if_none_match: bytes | None) -> Reply:
    """The verdict on one hotkey, out of the same snapshot.

    Raises:
        Problem: 400 or 404.
        StoreUnavailable: Nothing is held, and the database does not answer.
    """
    held = await _held(newest, netuid)
    page = held.verdicts.get(hotkey) or held.verdicts.get(_normal(hotkey))
    if page is None:
        raise Problem(404, "hotkey_unknown", "this hotkey is not registered on the subnet, as of the newest snapshot")
    return reply(page, if_none_match)


async def _held(newest: Newest, netuid: int) -> Held:
    held = newest.at_hand(netuid)
    if held is None:
        held = await newest.get(netuid)
    if held is None:
        raise Problem(404, "snapshot_unknown", "no snapshot of this subnet has been published here")
    return held


def _normal(hotkey: str) -> str:
    """The address with prefix 42, as snapshots have it."""
    try:
        return ss58.normalise(hotkey)
    except AttestError as error:
        raise Problem(400, "hotkey_malformed", error.what) from None


def _matches(if_none_match: bytes, etag: bytes) -> bool:
    return if_none_match.strip() == b"*" or etag in _TAG.findall(if_none_match)
