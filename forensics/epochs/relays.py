"""Drand quicknet over HTTP: several relays, the first verified answer counts.

A relay can be late, away or lying; it cannot choose a value, for every answer is verified. Only when no relay has a
verified one is the round unavailable, and then the epoch waits.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from attest.seeds.beacon import MAX_ANSWER, QUICKNET, Network, parse_answer, verify
from attest.seeds.errors import BeaconInvalid, BeaconUnavailable

from ..errors import UsageError

RELAYS: Final = (
    "https://api.drand.sh",
    "https://drand.cloudflare.com",
    "https://api2.drand.sh",
    "https://api3.drand.sh",
)
"""Relays of the League of Entropy and of Cloudflare (https://docs.drand.love)."""
TIMEOUT: Final = 5.0
"""Seconds to wait for one relay."""

Fetch = Callable[[str], bytes]
"""The body behind a URL; raises ``OSError`` when there is none."""


def fetch(url: str) -> bytes:
    """GET a URL; at most ``MAX_ANSWER`` bytes and one are read."""
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked at start
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
        body: bytes = answer.read(MAX_ANSWER + 1)
        return body


class HttpRelays:
    """A beacon source over HTTP.

    Args:
        relays: Base URLs, asked in this order.
        network: Whose rounds.
        get: Fetches a URL; passed in for tests.

    Raises:
        UsageError: None, or one that is no HTTP URL.
    """

    def __init__(self, relays: Sequence[str] = RELAYS, *, network: Network = QUICKNET, get: Fetch = fetch) -> None:
        for relay in relays:
            if urlsplit(relay).scheme not in ("http", "https") or not urlsplit(relay).netloc:
                raise UsageError("not a relay", where="--beacon", got=relay[:80], expected="http(s)://HOST")
        if not relays:
            raise UsageError("no relay", where="--beacon")
        self._relays, self._network, self._get = tuple(relays), network, get

    def signature(self, round_: int) -> bytes:
        """The verified signature of a round from the first relay that has it.

        Raises:
            BeaconUnavailable: No relay has a verified one; why, relay by relay.
        """
        refusals = []
        for relay in self._relays:
            try:
                return self._ask(relay, round_)
            except BeaconInvalid as lie:
                refusals.append(f"{urlsplit(relay).netloc}: {lie.what}")
            except urllib.error.HTTPError as error:
                refusals.append(f"{urlsplit(relay).netloc}: {error.code}")
                error.close()
            except (OSError, ValueError) as error:
                refusals.append(f"{urlsplit(relay).netloc}: {type(error).__name__}")
        raise BeaconUnavailable(
            "no relay has the round", where=f"round {round_}", got="; ".join(refusals), remedy="Wait and ask again."
        )

    def _ask(self, relay: str, round_: int) -> bytes:
        url = f"{relay.rstrip('/')}/{self._network.chain.hex()}/public/{round_}"
        found, signature = parse_answer(self._get(url))
        if found != round_:
            raise BeaconInvalid("answered with another round", got=found, expected=round_)
        verify(round_, signature, network=self._network)
        return signature
