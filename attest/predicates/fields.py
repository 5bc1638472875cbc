"""The field forms that our predicates share, and the context that every one of them carries.

The context is inside what is signed, so a statement cannot be replayed on another network, subnet or competition,
under another hotkey or another scheme. Time in it is what the signer says and proves nothing; time that counts comes
from the chain (``attest.priority``). There is no uid: uids are recycled and identify nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from attest.errors import MalformedInput
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Scheme
from attest.record import Address, Integer, ListOf, Nested, Nullable, Record, Text, Time

DIGEST: Final = Text(r"sha256:[0-9a-f]{64}", 71)
HEX_32: Final = Text(r"[0-9a-f]{64}", 64)
WORD: Final = Text(r"[a-z0-9][a-z0-9._:/@+-]*", 128, 1)
PROSE: Final = Text(None, 4096)
NAME: Final = Text(None, 512, 1)
DECIMAL: Final = Text(r"(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?(?:e-[1-9][0-9]{0,3})?", 44, 1)
FRACTION: Final = Text(r"(?:0(?:\.[0-9]{1,18})?|1(?:\.0{1,18})?)", 20, 1)
REVISION: Final = Text(r"[0-9a-f]{40}", 40)
MAX_PARENTS: Final = 64

Digest = Annotated[str, DIGEST]
"""``sha256:`` and 64 lower-case hex digits."""
Hex32 = Annotated[str, HEX_32]
"""32 bytes as lower-case hex."""
Word = Annotated[str, WORD]
"""An identifier: lower-case ASCII, no spaces."""
Prose = Annotated[str, PROSE]
"""Text for people."""
Name = Annotated[str, NAME]
"""A name others chose: a tensor, a repository, a competition."""
Decimal = Annotated[str, DECIMAL]
"""A non-negative decimal number as text; signed payloads hold no floats."""
Fraction = Annotated[str, FRACTION]
"""A decimal number in [0, 1] as text."""
Revision = Annotated[str, REVISION]
"""A git commit by its 40 hex digits; branch names are refused because they move."""
Instant = Annotated[str, Time()]
"""UTC to the second."""
Genesis = Annotated[str, Text(r"0x[0-9a-f]{64}", 66)]
"""Genesis hash of the chain."""
Netuid = Annotated[int, Integer(0, 0xFFFF)]
"""Subnet number."""
Block = Annotated[int, Integer()]
"""Block height."""
Count = Annotated[int, Integer()]
"""A non-negative number."""
AddressText = Annotated[str, Address()]
"""SS58 at prefix 42."""
SchemeName = Annotated[str, Text(r"sr25519|ed25519", 7)]
"""Scheme of an account."""
NullableDigest = Annotated[str | None, Nullable(DIGEST)]
"""A digest, or nothing."""
Digests = Annotated[tuple[str, ...], ListOf(DIGEST, MAX_PARENTS, unique=True)]
"""Distinct digests."""


@dataclass(frozen=True)
class Context(Record):
    """Who speaks, where, about which competition, when (by their own word), and building on which statements."""

    scheme: SchemeName
    hotkey: AddressText
    genesis: Genesis
    netuid: Netuid
    competition: Name
    claimed_at: Instant
    parents: Digests

    @property
    def signer(self) -> Hotkey:
        """The account that must have signed."""
        return Hotkey(Scheme(self.scheme), self.hotkey)

    @classmethod
    def of(
        cls,
        hotkey: Hotkey,
        *,
        genesis: str,
        netuid: int,
        competition: str,
        claimed_at: str,
        parents: tuple[str, ...] = (),
    ) -> Context:
        """The context of a statement by ``hotkey``."""
        return cls(
            scheme=str(hotkey.scheme),
            hotkey=hotkey.address,
            genesis=genesis,
            netuid=netuid,
            competition=competition,
            claimed_at=claimed_at,
            parents=parents,
        )


@dataclass(frozen=True)
class Predicate(Record):
    """Base of every predicate: the context comes first."""

    context: Annotated[Context, Nested(Context)]


@dataclass(frozen=True)
class Account(Record):
    """An account named in a statement: scheme and address."""

    scheme: SchemeName
    hotkey: AddressText

    @property
    def key(self) -> Hotkey:
        """The account as a key."""
        return Hotkey(Scheme(self.scheme), self.hotkey)


def same(name: str, got: object, expected: object, *, where: str) -> None:
    """Refuse a record that says one thing twice, differently."""
    if got != expected:
        raise MalformedInput(f"{name} differs from the context's", where=where, got=got, expected=expected)
