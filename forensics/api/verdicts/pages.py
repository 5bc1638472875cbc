"""A snapshot made ready to be sent: every answer it can give, with its headers, built once when it is read.

The whole snapshot goes out as the bytes that were signed, also compressed for those who take that. A single verdict is
a small document that names the snapshot it stands in, by its digest, number and place in the log: whoever doubts it
fetches the snapshot, checks the signature and looks the verdict up there. It is no statement of its own.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from attest import envelope as dsse
from attest.errors import AttestError

from ...errors import StoreCorrupt
from ...snapshots.shelf import Stored

Headers = list[tuple[bytes, bytes]]
JSON: Final = b"application/json"
VERDICT_SCHEMA: Final = "forensics/verdict/v1"
CACHE_CONTROL: Final = b"public, max-age=5, stale-if-error=600"
"""Shorter than the time between two snapshots; a cache before us may answer with an older one while we are down, for a
client believes no snapshot beyond its signed expiry."""
RECEIPT: Final = b"urn:model-forensics:receipt"
_GZIP_LEVEL: Final = 6
_VARY: Final = (b"vary", b"accept-encoding")


@dataclass(frozen=True, slots=True)
class Page:
    """One answer.

    Args:
        etag: Strong validator, quotes included.
        body: What is sent.
        headers: With the body.
        bare: Headers of a 304.
    """

    etag: bytes
    body: bytes
    headers: Headers
    bare: Headers


@dataclass(frozen=True, slots=True)
class Held:
    """Everything a snapshot answers.

    Args:
        stored: The snapshot.
        plain: The signed bytes.
        packed: The same, compressed with gzip.
        verdicts: Single verdicts by hotkey.
    """

    stored: Stored
    plain: Page
    packed: Page
    verdicts: dict[str, Page]


def prepare(stored: Stored) -> Held:
    """Make a snapshot ready.

    Raises:
        StoreCorrupt: The stored bytes are not an envelope around a snapshot.
    """
    tag = f"{stored.sequence}-{sha256(stored.envelope).hexdigest()[:32]}"
    return Held(
        stored=stored,
        plain=_page(stored.envelope, tag, more=[_VARY, *_receipt(stored)]),
        packed=_page(
            gzip.compress(stored.envelope, _GZIP_LEVEL, mtime=0),
            f"{tag}-gzip",
            more=[_VARY, (b"content-encoding", b"gzip"), *_receipt(stored)],
        ),
        verdicts={hotkey: _page(body, f"{tag}-{hotkey}") for hotkey, body in _single(stored)},
    )


def _single(stored: Stored) -> Iterator[tuple[str, bytes]]:
    try:
        predicate = json.loads(dsse.read(stored.envelope, where="snapshot").payload)["predicate"]
        for verdict in predicate["verdicts"]:
            yield verdict["hotkey"], json.dumps(_document(stored, predicate, verdict), separators=(",", ":")).encode()
    except (AttestError, ValueError, KeyError, TypeError) as error:
        where = f"snapshot {stored.sequence} of subnet {stored.netuid}"
        raise StoreCorrupt("a stored snapshot cannot be read", where=where, got=type(error).__name__) from None


def _document(stored: Stored, predicate: dict[str, Any], verdict: dict[str, Any]) -> dict[str, Any]:
    shared = ("network", "genesis", "netuid", "block", "sequence", "issued_at", "expires_at", "policy")
    return {
        "schema": VERDICT_SCHEMA,
        **{name: predicate[name] for name in shared},
        "snapshot": {
            "digest": stored.digest,
            "log_index": stored.leaf,
            "url": f"/v1/netuids/{stored.netuid}/verdicts",
        },
        "verdict": verdict,
    }


def _receipt(stored: Stored) -> Headers:
    """Where the log's receipt for the snapshot is, as a link (RFC 8288)."""
    if stored.leaf is None:
        return []
    return [(b"link", b'</v1/log/proof?index=%d>; rel="%s"' % (stored.leaf, RECEIPT))]


def _page(body: bytes, tag: str, *, more: Sequence[tuple[bytes, bytes]] = ()) -> Page:
    etag = f'"{tag}"'.encode()
    bare: Headers = [(b"etag", etag), (b"cache-control", CACHE_CONTROL), *(h for h in more if h == _VARY)]
    headers = [(b"content-type", JSON), (b"content-length", str(len(body)).encode()), *bare[:2], *more]
    return Page(etag, body, headers, bare)
