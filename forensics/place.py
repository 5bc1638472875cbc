"""Where a statement is made: chain, subnet, competition; and when, by the signer's own word."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from .errors import UsageError

if TYPE_CHECKING:
    from attest.keys.hotkey import Hotkey
    from attest.predicates import Context

    from .settings import Settings

Clock = Callable[[], datetime]
GENESIS: Final = {"finney": "0x2f0555cc76fc2840a25a6ea3b9637146806f1f44b090c175ffde2a7e5ab36c03"}
"""Chains whose genesis hash is built in (bittensor 11, ``settings.FINNEY_GENESIS_HASH``)."""
DEFAULT_COMPETITION: Final = "default"
_GENESIS: Final = re.compile(r"0x[0-9a-f]{64}")


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def genesis_of(network: str, genesis: str = "") -> str:
    """Genesis hash of a chain, by its name unless it is given.

    Raises:
        UsageError: Malformed, or a network whose genesis hash is not built in.
    """
    found = genesis.lower() or GENESIS.get(network, "")
    if not found:
        raise UsageError(
            "no genesis hash is built in for this network",
            where="--network",
            got=network,
            expected=", ".join(GENESIS),
            remedy="Give its genesis hash with --genesis.",
        )
    if not _GENESIS.fullmatch(found):
        raise UsageError("not a genesis hash", where="--genesis", got=genesis[:80], expected="0x and 64 hex digits")
    return found


def settings_genesis(settings: Settings) -> str:
    """Genesis hash of the chain that the settings name."""
    return genesis_of(settings.network, settings.genesis)


@dataclass(frozen=True)
class Place:
    """Chain, subnet and competition that a statement is bound to.

    Args:
        genesis: ``0x`` and 64 hex digits.
        netuid: Subnet.
        competition: Its name.
    """

    genesis: str
    netuid: int
    competition: str = DEFAULT_COMPETITION

    def context(self, hotkey: Hotkey, *, clock: Clock = now, parents: tuple[str, ...] = ()) -> Context:
        """The context that ``hotkey`` signs here."""
        from attest.predicates import Context

        return Context.of(
            hotkey,
            genesis=self.genesis,
            netuid=self.netuid,
            competition=self.competition,
            claimed_at=clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            parents=parents,
        )
