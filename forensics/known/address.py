"""Hotkeys as ss58 addresses, re-encoded to prefix 42, so that one key never looks like two.

The same 32-byte key has another ss58 text under every network prefix; comparing texts would let a miner pass for
somebody else. Format: base58 of prefix | key | first two bytes of blake2b-512("SS58PRE" | prefix | key)
(https://docs.substrate.io/reference/address-formats).
"""

from __future__ import annotations

import hashlib

from ..errors import UsageError

ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
PREFIX = bytes([42])  # generic Substrate: what the project stores and compares
KEY_BYTES = 32
CHECKSUM_BYTES = 2
TEXT_LIMIT = 80


def normalise(text: str) -> tuple[str, bool]:
    """The address under prefix 42, and whether ``text`` was a valid ss58 address.

    Something else (a name in a test network or a demo) is kept as it is, for the caller to warn about.

    Raises:
        UsageError: Empty, too long, or with characters that no name needs.
    """
    if not text or len(text) > TEXT_LIMIT or not text.isascii() or not text.isprintable() or " " in text:
        raise UsageError(
            "not a hotkey", where="--hotkey", got=ascii(text[:TEXT_LIMIT]), expected="an ss58 address, e.g. 5F3sa2..."
        )
    key = public_key(text)
    return (text, False) if key is None else (encode(key), True)


def public_key(text: str) -> bytes | None:
    """The 32 bytes an ss58 address stands for, under any one- or two-byte prefix; None if it is not one."""
    raw = _from_base58(text)
    if raw is None or len(raw) < 1 + KEY_BYTES + CHECKSUM_BYTES:
        return None
    prefix_bytes = 1 if raw[0] < 64 else 2
    if len(raw) != prefix_bytes + KEY_BYTES + CHECKSUM_BYTES or raw[0] >= 128:
        return None
    body, check = raw[:-CHECKSUM_BYTES], raw[-CHECKSUM_BYTES:]
    return body[prefix_bytes:] if _checksum(body) == check else None


def encode(key: bytes) -> str:
    """The prefix-42 address of a 32-byte public key."""
    body = PREFIX + key
    return _to_base58(body + _checksum(body))


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(b"SS58PRE" + body).digest()[:CHECKSUM_BYTES]


def _from_base58(text: str) -> bytes | None:
    number = 0
    for character in text:
        digit = ALPHABET.find(character)
        if digit < 0:
            return None
        number = number * 58 + digit
    zeros = len(text) - len(text.lstrip(ALPHABET[0]))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def _to_base58(raw: bytes) -> str:
    number, text = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = ALPHABET[digit] + text
    return ALPHABET[0] * (len(raw) - len(raw.lstrip(b"\0"))) + text
