"""SS58: the text form of an account (https://docs.polkadot.com/polkadot-protocol/basics/accounts/#address-formats).

One account has as many addresses as there are network prefixes, so two texts may be one key: addresses are re-encoded
to prefix 42 before any comparison. An address carries no signature scheme; the scheme must be stated beside it.
Base58 is decoded after a length check (its arithmetic is quadratic) and must be the text that encoding gives back.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from attest.errors import InvalidKey

PREFIX: Final = 42
"""The generic Substrate prefix; Bittensor's own."""
ACCOUNT_BYTES: Final = 32
MAX_PREFIX: Final = 16383
"""Largest prefix that two bytes can carry (14 bits)."""

_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGIT: Final = {letter: value for value, letter in enumerate(_ALPHABET)}
_CHECKSUM_DOMAIN: Final = b"SS58PRE"
_CHECKSUM_BYTES: Final = 2
_MAX_TEXT: Final = 64
"""2 + 32 + 2 bytes are at most 50 base58 letters."""
_ONE_BYTE_PREFIXES: Final = 64


def encode(public_key: bytes, *, prefix: int = PREFIX) -> str:
    """The address of a 32-byte account id.

    Raises:
        InvalidKey: The id is not 32 bytes or the prefix is outside 0..16383.
    """
    if len(public_key) != ACCOUNT_BYTES:
        raise InvalidKey("an account id has 32 bytes", got=len(public_key), expected=ACCOUNT_BYTES)
    if not 0 <= prefix <= MAX_PREFIX:
        raise InvalidKey("no such address prefix", got=prefix, expected=f"0..{MAX_PREFIX}")
    body = _prefix_bytes(prefix) + public_key
    return _base58(body + _checksum(body))


def decode(address: str) -> tuple[int, bytes]:
    """Prefix and 32-byte account id of an address.

    Raises:
        InvalidKey: Not base58, not the address of a 32-byte account, wrong checksum, or not its canonical spelling.
    """
    if not 0 < len(address) <= _MAX_TEXT or any(letter not in _DIGIT for letter in address):
        raise InvalidKey("not an SS58 address", got=address, expected="base58 text of at most 64 letters")
    raw = _unbase58(address)
    width = 1 if raw[:1] < bytes([_ONE_BYTE_PREFIXES]) else 2
    if len(raw) != width + ACCOUNT_BYTES + _CHECKSUM_BYTES:
        raise InvalidKey("not the address of a 32-byte account", got=address)
    body, checksum = raw[:-_CHECKSUM_BYTES], raw[-_CHECKSUM_BYTES:]
    if checksum != _checksum(body):
        raise InvalidKey("the address has a wrong checksum", got=address, remedy="Check it for a mistyped letter")
    prefix, account = _read_prefix(body[:width]), body[width:]
    if encode(account, prefix=prefix) != address:
        raise InvalidKey("not the canonical spelling of this address", got=address)
    return prefix, account


def account_id(address: str) -> bytes:
    """The 32-byte account id behind an address of any prefix."""
    return decode(address)[1]


def normalise(address: str) -> str:
    """The same account under prefix 42; the form in which addresses are compared, stored and signed."""
    return encode(account_id(address))


def _prefix_bytes(prefix: int) -> bytes:
    if prefix < _ONE_BYTE_PREFIXES:
        return bytes([prefix])
    return bytes([((prefix & 0xFC) >> 2) | 0x40, (prefix >> 8) | ((prefix & 0x03) << 6)])


def _read_prefix(raw: bytes) -> int:
    if len(raw) == 1:
        return raw[0]
    first, second = raw
    return ((first & 0x3F) << 2) | (second >> 6) | ((second & 0x3F) << 8)


def _checksum(body: bytes) -> bytes:
    return blake2b(_CHECKSUM_DOMAIN + body).digest()[:_CHECKSUM_BYTES]


def _base58(data: bytes) -> str:
    zeros = len(data) - len(data.lstrip(b"\0"))
    number, letters = int.from_bytes(data), ""
    while number:
        number, digit = divmod(number, 58)
        letters = _ALPHABET[digit] + letters
    return _ALPHABET[0] * zeros + letters


def _unbase58(text: str) -> bytes:
    zeros = len(text) - len(text.lstrip(_ALPHABET[0]))
    number = 0
    for letter in text:
        number = number * 58 + _DIGIT[letter]
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8)
