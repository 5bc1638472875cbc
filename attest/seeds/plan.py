"""What is drawn in an epoch, and who gets which items: common ones for all, tracer items for one validator alone.

The plan says how many items each environment has. Its digest is the ``pool`` of the epoch's context, so it is fixed
when the seed is committed. In an environment with n common and t tracer items, indices 0 to n - 1 are common and
n + v t to n + v t + t - 1 are the tracers of the validator with place v (from 0) in the epoch's roster.

A validator receives keys without indices, common and tracer items shuffled in an order of its own, so that it cannot
tell which of its items are seen by it alone; a leak that leaves tracers out would have to leave out the rest as well.
It receives item keys, never S: from S it could compute the tracers of the others.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Final

from attest import canonical
from attest.errors import MalformedInput
from attest.keys import ss58
from attest.predicates.fields import Name, NullableDigest
from attest.record import Integer, ListOf, Nested, Record, Text

from .derive import item_key, lp
from .draw import Draw

SCHEMA: Final = "integrity/seed-plan/v1"
MAX_ENVIRONMENTS: Final = 64
MAX_COMMON: Final = 100_000
MAX_TRACERS: Final = 1_000
MAX_BYTES: Final = 1 << 18
ID_SIZE: Final = 16
"""Bytes of an item's id: it names the item in results and tells nothing of its key."""

_ID: Final = lp(b"integrity/seed/v1/id")
_ORDER: Final = lp(b"integrity/seed/v1/order")


@dataclass(frozen=True)
class Environment(Record):
    """How much is drawn in one environment.

    Args:
        name: The environment's name, as in ``item_key``.
        common: Items that every validator gets.
        tracers: Items that one validator alone gets, for each of them.
        pool: Digest of its numbered tasks, where it has a fixed pool.
    """

    name: Name
    common: Annotated[int, Integer(0, MAX_COMMON)]
    tracers: Annotated[int, Integer(0, MAX_TRACERS)]
    pool: NullableDigest = None


@dataclass(frozen=True)
class Plan(Record):
    """Every environment of an epoch."""

    schema: Annotated[str, Text(SCHEMA, len(SCHEMA))]
    environments: Annotated[tuple[Environment, ...], ListOf(Nested(Environment), MAX_ENVIRONMENTS, 1)]

    def agree(self) -> None:
        """No environment twice."""
        names = [environment.name for environment in self.environments]
        if len(set(names)) != len(names):
            raise MalformedInput("an environment twice", where="Plan.environments")

    @classmethod
    def of(cls, *environments: Environment) -> Plan:
        """A plan of these environments."""
        return cls(SCHEMA, environments)

    @classmethod
    def parse(cls, data: bytes) -> Plan:
        """Read a plan; any spelling of its JSON is taken, for its digest is that of the canonical one."""
        return cls.read(canonical.read(data, where="plan", max_bytes=MAX_BYTES), where="plan")

    def encode(self) -> bytes:
        """The canonical bytes."""
        return canonical.write(self.write(), where="plan")

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes: the ``pool`` of a context."""
        return sha256(self.encode()).digest()


@dataclass(frozen=True)
class Item:
    """One item of an epoch; its key is hidden until the reveal."""

    environment: str
    index: int
    key: bytes

    @property
    def id(self) -> str:
        """Its public name, 32 hex digits."""
        return sha256(_ID + lp(self.key)).hexdigest()[: 2 * ID_SIZE]

    def __repr__(self) -> str:
        return f"Item({self.environment!r}, {self.index}, ...)"


def common(seed: bytes, plan: Plan) -> Iterator[Item]:
    """The items that every validator gets, in order."""
    for environment in plan.environments:
        yield from _items(seed, environment.name, 0, environment.common)


def tracers(seed: bytes, plan: Plan, place: int) -> Iterator[Item]:
    """The items that only the validator with this place in the roster gets, in order."""
    for environment in plan.environments:
        start = environment.common + place * environment.tracers
        yield from _items(seed, environment.name, start, environment.tracers)


def every(seed: bytes, plan: Plan, validators: int) -> Iterator[Item]:
    """All items of an epoch: common ones, then each validator's tracers."""
    yield from common(seed, plan)
    for place in range(validators):
        yield from tracers(seed, plan, place)


def handed_to(seed: bytes, plan: Plan, roster: Sequence[str], hotkey: str) -> list[Item]:
    """What one validator of the roster gets, in the order in which it gets it.

    Raises:
        MalformedInput: The hotkey is not in the roster.
    """
    if hotkey not in roster:
        raise MalformedInput("not in the roster", where="hotkey", got=hotkey)
    items = [*common(seed, plan), *tracers(seed, plan, list(roster).index(hotkey))]
    order = hmac.digest(seed, _ORDER + lp(ss58.account_id(hotkey)), "sha256")
    return Draw(order).shuffle(items)


def items_digest(seed: bytes, plan: Plan, validators: int) -> str:
    """``sha256:`` over the ids of all items in order: binds them, and tells nothing of them."""
    total = sha256()
    for item in every(seed, plan, validators):
        total.update(bytes.fromhex(item.id))
    return "sha256:" + total.hexdigest()


def traced_to(plan: Plan, environment: str, index: int) -> int | None:
    """Place in the roster of the only validator that gets this item; None when all get it.

    Raises:
        MalformedInput: The plan has no such environment or item.
    """
    found = next((e for e in plan.environments if e.name == environment), None)
    if found is None or index < 0 or (index >= found.common and not found.tracers):
        raise MalformedInput("no such item in the plan", where=environment, got=index)
    return None if index < found.common else (index - found.common) // found.tracers


def _items(seed: bytes, environment: str, start: int, count: int) -> Iterator[Item]:
    for index in range(start, start + count):
        yield Item(environment, index, item_key(seed, environment, index))
