"""Who asks: btauth/1 (``bittensor.http_auth``), with method, path and body bound, and this service as the receiver.

bittensor's own check accepts a signature over the ``<Bytes>``-wrapped form of a message; here the signature is checked
once more, strictly, over the payload as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attest.errors import AttestError
from attest.keys.hotkey import CRYPTO_TYPES, Hotkey

from .problems import Problem

if TYPE_CHECKING:
    from .services import Services

_CODES = {
    "MalformedAuth": "auth_malformed",
    "WrongReceiver": "auth_wrong_receiver",
    "StaleRequest": "auth_stale",
    "ReplayedRequest": "auth_replayed",
    "BadSignature": "auth_bad_signature",
}


@dataclass(frozen=True)
class Caller:
    """Who sent a request.

    Args:
        hotkey: The account, with its scheme.
    """

    hotkey: Hotkey


def authenticate(services: Services, headers: Mapping[str, str], body: bytes, *, method: str, target: str) -> Caller:
    """The caller of a signed request.

    Args:
        services: Whose door it is.
        headers: As received.
        body: As received, before anything parsed it.
        method: HTTP method.
        target: Path and query, as received.

    Raises:
        Problem: 401, with a code that says why.
    """
    from bittensor import http_auth

    headers = {name.lower(): value for name, value in headers.items()}
    moment = services.clock()
    try:
        caller = http_auth.verify(
            headers,
            body,
            method=method,
            path=target,
            self_hotkey_ss58=services.hotkey,
            nonce_store=_Strict(services, headers, body, method=method, target=target),
            now_ns=int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000,
        )
        return Caller(Hotkey(CRYPTO_TYPES[caller.crypto_type], caller.hotkey_ss58))
    except http_auth.AuthError as error:
        raise _refused(_CODES.get(type(error).__name__, "auth_refused"), str(error)) from None
    except AttestError as error:
        raise _refused("auth_bad_signature", error.what) from None


class _Strict:
    """Checks the signature under strict rules before a nonce is used up."""

    def __init__(
        self, services: Services, headers: Mapping[str, str], body: bytes, *, method: str, target: str
    ) -> None:
        self._services, self._headers, self._body = services, headers, body
        self._method, self._target = method, target
        self.retention = services.nonces.retention

    def check_and_store(self, hotkey_ss58: str, nonce_ns: int) -> bool:
        """As ``NonceStore``; the headers have been found well-formed by now."""
        from bittensor import http_auth
        from bittensor.wallets import parse_crypto_type

        scheme = parse_crypto_type(self._headers.get(http_auth.HEADER_CRYPTO.lower(), "sr25519"))
        hotkey = Hotkey(CRYPTO_TYPES[scheme], hotkey_ss58)
        payload = http_auth.build_payload(
            scheme=str(hotkey.scheme),
            method=self._method,
            path=self._target,
            body=self._body,
            nonce_ns=nonce_ns,
            sender_ss58=hotkey_ss58,
            receiver_ss58=self._headers.get(http_auth.HEADER_RECEIVER.lower()),
        )
        signature = bytes.fromhex(self._headers[http_auth.HEADER_SIGNATURE.lower()].removeprefix("0x"))
        hotkey.verifier().verify(signature, payload)
        return self._services.nonces.check_and_store(hotkey_ss58, nonce_ns)


def _refused(code: str, detail: str) -> Problem:
    return Problem(401, code, detail, headers={"WWW-Authenticate": "btauth/1"})
