"""How often somebody may ask: a token bucket for each address and each hotkey, in memory that does not grow.

Each process counts for itself, so several processes allow several times as much; a proxy before the service sees all
of it. A flood from very many addresses pushes old buckets out; what then still holds is the limit on requests at once.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import Final

from .problems import Problem

MAX_BUCKETS: Final = 20_000
"""About 4 MB."""


@dataclass(frozen=True)
class Rate:
    """What is allowed.

    Args:
        a_second: Requests a second in the long run; 0 for no limit.
        burst: Requests at once, after a pause.
    """

    a_second: float
    burst: float


class Buckets:
    """Token buckets by key.

    Args:
        rate: What is allowed.
        most: Keys that are remembered; those that asked longest ago are forgotten first.
        clock: Seconds that only go forward.
    """

    def __init__(self, rate: Rate, *, most: int = MAX_BUCKETS, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._most, self._clock = rate, most, clock
        self._level: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._level)

    def wait(self, key: str) -> float:
        """Take a token: 0 when there was one, else the seconds until there is."""
        if not self._rate.a_second:
            return 0.0
        now = self._clock()
        level, at = self._level.pop(key, (self._rate.burst, now))
        level = min(self._rate.burst, level + (now - at) * self._rate.a_second)
        granted = level >= 1.0
        self._level[key] = (level - 1.0 if granted else level, now)
        while len(self._level) > self._most:
            self._level.popitem(last=False)
        return 0.0 if granted else (1.0 - level) / self._rate.a_second

    def demand(self, key: str) -> None:
        """Take a token.

        Raises:
            Problem: 429.
        """
        seconds = self.wait(key)
        if seconds:
            raise limited(seconds)


def limited(seconds: float) -> Problem:
    """The refusal of who asked too often."""
    headers = {"Retry-After": str(max(1, math.ceil(seconds)))}
    return Problem(429, "rate_limited", "too many requests from this address or hotkey", headers=headers)


def address_key(host: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 that one IPv6 subscriber has."""
    try:
        address = ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped else str(IPv6Address(int(address) >> 64 << 64))
    return str(address)
