"""The signature of a message, by the Standard Webhooks specification (spec/standard-webhooks.md, "Signature scheme").

``webhook-signature`` is ``v1,`` and base64 of HMAC-SHA256 over ``id.timestamp.body``, keyed with the bytes behind the
``whsec_`` secret. Receivers refuse old timestamps, so each attempt is signed anew; the id stays the same, and tells a
message that comes twice.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

from ..errors import BadInput

PREFIX: Final = "whsec_"
SECRET_BYTES: Final = 32
"""The specification asks for 24 to 64."""


def spelled(secret: bytes) -> str:
    """The secret as receivers take it."""
    return PREFIX + base64.b64encode(secret).decode()


def read(text: str) -> bytes:
    """The bytes behind a spelled secret.

    Raises:
        BadInput: It is none.
    """
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not text.startswith(PREFIX) or not 24 <= len(secret) <= 64:
        raise BadInput("not a webhook secret", expected=f"{PREFIX} and base64 of 24 to 64 bytes")
    return secret


def headers(secret: bytes, *, name: str, seconds: int, body: bytes) -> dict[str, str]:
    """The three headers of a message.

    Args:
        secret: Of the subscription.
        name: The message's id.
        seconds: The time of this attempt, Unix seconds.
        body: Exactly what is sent.
    """
    digest = hmac.new(secret, b"%b.%d.%b" % (name.encode(), seconds, body), hashlib.sha256).digest()
    return {
        "webhook-id": name,
        "webhook-timestamp": str(seconds),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }
