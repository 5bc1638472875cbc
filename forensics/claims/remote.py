"""A service seen from outside: hand in statements, fetch receipts and log; nothing it says is believed unverified."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from attest.log.note import NoteKey

from .. import fields
from ..errors import BadInput, Unavailable, UsageError
from ..text import without_userinfo

if TYPE_CHECKING:
    import httpx2

TIMEOUT: Final = 60.0
"""Seconds; judging a lineage compares two fingerprints."""
MAX_ANSWER: Final = 32 << 20
Headers = Callable[..., Mapping[str, str]]
"""``bittensor.http_auth.sign`` with a wallet's hotkey."""


@dataclass(frozen=True)
class Identity:
    """Who a service says it is.

    Args:
        hotkey: The account that signed requests are bound to.
        log_key: Key and name of its log.
        genesis: Its chain.
        netuid: The only subnet it serves; None for any.
    """

    hotkey: str
    log_key: NoteKey
    genesis: str
    netuid: int | None


class Remote:
    """A service by its URL.

    Args:
        url: ``http://host:port``, without a path.
        client: HTTP client; tests hand in one that needs no network.
    """

    def __init__(self, url: str, *, client: httpx2.Client | None = None) -> None:
        self._url = _checked(url)
        self._shown = without_userinfo(self._url)
        self._client = client

    def identity(self) -> Identity:
        """Who this is, by its own word: pin the key, or compare it with one you got elsewhere."""
        found = self._json("GET", "/v1/service")
        where = self._shown + "/v1/service"
        return Identity(
            fields.text(found, "hotkey", where=where),
            NoteKey.parse(fields.text(found, "log_key", where=where)),
            fields.text(found, "genesis", where=where),
            fields.maybe_integer(found, "netuid", where=where),
        )

    def submit(self, statement: bytes, *, pair: Any, receiver: str) -> dict[str, Any]:
        """Hand in a statement with a signed request.

        Args:
            statement: DSSE envelope.
            pair: A hotkey of a wallet; who sends, not who claims.
            receiver: The service's account.
        """
        from bittensor import http_auth

        path = "/v1/attestations"
        headers = http_auth.sign(pair, method="POST", path=path, body=statement, receiver_ss58=receiver)
        key = {"Idempotency-Key": sha256(statement).hexdigest(), "Content-Type": "application/json"}
        return self._json("POST", path, body=statement, headers=headers | key)

    def attestation(self, digest: str) -> dict[str, Any]:
        """A statement by its digest, with a receipt under the newest checkpoint."""
        return self._json("GET", f"/v1/attestations/{digest}")

    def checkpoint(self) -> bytes:
        """The newest checkpoint, as a signed note."""
        return self._fetch("GET", "/v1/log/checkpoint")

    def receipt(self, index: int) -> bytes:
        """The receipt of a leaf under the newest checkpoint."""
        return self._fetch("GET", f"/v1/log/proof?index={index}")

    def consistency(self, old: int, new: int) -> list[bytes]:
        """The proof that the tree at ``old`` leaves is a prefix of that at ``new``."""
        found = self._json("GET", f"/v1/log/proof?old={old}&new={new}")
        try:
            nodes = fields.texts(found, "path", where=self._shown)
            return [base64.b64decode(node, validate=True) for node in nodes]
        except (binascii.Error, ValueError) as error:
            raise BadInput("not a proof", where=self._shown, got=repr(error), expected="hashes in base64") from None

    def tile(self, path: str) -> bytes:
        """A tile of the log, ``tile/...``."""
        return self._fetch("GET", f"/v1/log/{path}")

    def _json(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        raw = self._fetch(method, path, body=body, headers=headers)
        try:
            found = json.loads(raw)
        except (ValueError, RecursionError):
            raise BadInput("the service did not answer with JSON", where=self._shown + path) from None
        if not isinstance(found, dict):
            raise BadInput("the service answered with something else", where=self._shown + path)
        return found

    def _fetch(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        import httpx2

        client = self._client or self._connected()
        try:
            with client.stream(method, path, content=body, headers=headers) as answer:
                data = _bounded(answer)
                status = answer.status_code
        except httpx2.HTTPError as error:
            raise Unavailable(
                "the service cannot be reached",
                where=self._shown,
                got=str(error).replace(self._url, self._shown),
                remedy="Check the URL, try again.",
            ) from None
        finally:
            if self._client is None:
                client.close()
        if status >= 300:
            raise _refusal(status, data, self._shown + path)
        return data

    def _connected(self) -> httpx2.Client:
        import httpx2

        try:
            return httpx2.Client(base_url=self._url, timeout=TIMEOUT, follow_redirects=False)
        except httpx2.InvalidURL:  # its text may quote the password
            raise UsageError("not a service's URL", got=self._shown, expected="http://HOST:PORT") from None


def _bounded(answer: httpx2.Response) -> bytes:
    data = bytearray()
    for chunk in answer.iter_bytes():
        data += chunk
        if len(data) > MAX_ANSWER:
            raise BadInput(
                "the answer is too large",
                where=without_userinfo(str(answer.url)),
                expected=f"at most {MAX_ANSWER} bytes",
            )
    return bytes(data)


def _refusal(status: int, data: bytes, where: str) -> BadInput | Unavailable:
    """The service's problem document as an error; its text is printed escaped like everything others wrote."""
    try:
        document = json.loads(data)
        detail = f"{document['code']}: {document['detail']}"
        more = {name: str(document.get(name, ""))[:300] for name in ("got", "expected", "remedy")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        detail, more = f"HTTP status {status}", {}
    kind = Unavailable if status in (408, 429) or status >= 500 else BadInput
    return kind(f"the service refused: {detail[:500]}", where=where, **more)


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")) or any(c.isspace() for c in url):
        raise UsageError(
            "not a service's URL", got=without_userinfo(url)[:200], expected="http://HOST:PORT or https://HOST"
        )
    return url.rstrip("/")
