"""Weights to the chain, through bittensor 11: seats are asked for at the last moment, weights belong to hotkeys.

``SetWeights`` fits the weights to the subnet's limits and picks the plain or the timelocked commit by itself. What
belongs to a hotkey that has no seat any more is burned, never given to whoever sits there now.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum
from typing import Any, Final

from attest.errors import AttestError
from attest.keys import ss58

from ..errors import ChainRefused, ChainUnavailable, UsageError

SECONDS: Final = 240.0
"""A validator of Affine's subnet has 480 s for everything."""


@dataclass(frozen=True)
class Sent:
    """What was sent.

    Args:
        weights: By uid, as handed to bittensor.
        lost: Hotkeys whose weight was burned because they have no seat.
        message: The chain's answer.
        reveal_round: Drand round that opens a timelocked commit; None for plain weights.
    """

    weights: dict[int, float]
    lost: tuple[str, ...]
    message: str
    reveal_round: int | None


def send(
    by_hotkey: Mapping[str, float],
    *,
    burn_uid: int,
    netuid: int,
    network: str,
    pair: Any,
    substrate: Any = None,
) -> Sent:
    """Set weights as a wallet's hotkey, and wait until they are in a block.

    Args:
        by_hotkey: Weights that were won; what is missing to 1 is burned.
        burn_uid: Whom burned weight is set to.
        netuid: Subnet.
        network: ``finney``, ``test``, ``local`` or an endpoint.
        pair: The hotkey's key pair (``forensics.claims.wallets.keypair``).
        substrate: Used instead of a connection.

    Raises:
        UsageError: No such network.
        ChainUnavailable: No node answered in time.
        ChainRefused: The hotkey is not registered, has no permit, or comes too early.
    """
    import bittensor

    try:
        return asyncio.run(_send(by_hotkey, burn_uid, netuid, network, pair, substrate))
    except bittensor.ChainError as error:
        raise ChainRefused(
            "the weights were not taken", where=f"netuid {netuid}", got=str(error), remedy=error.remediation or ""
        ) from None
    except (bittensor.BittensorError, OSError, TimeoutError) as error:
        raise ChainUnavailable(
            "the weights could not be set",
            where=f"{network}, netuid {netuid}",
            got=f"{type(error).__name__}: {error}",
            remedy="Try again; weights that were set before stay in force.",
        ) from None


def seated(
    by_hotkey: Mapping[str, float], seats: Mapping[str, int], burn_uid: int
) -> tuple[dict[int, float], list[str]]:
    """Weights by uid for seats as they are now, and hotkeys whose weight is burned instead."""
    parts: dict[int, list[float]] = defaultdict(list)
    lost = []
    for hotkey, weight in by_hotkey.items():
        uid = seats.get(hotkey)
        if uid is None:
            lost.append(hotkey)
        parts[burn_uid if uid is None else uid].append(weight)
    parts[burn_uid].append(max(0.0, 1.0 - fsum(by_hotkey.values())))
    found = {uid: fsum(weights) for uid, weights in sorted(parts.items())}
    return {uid: weight for uid, weight in found.items() if weight > 0}, lost


async def _send(
    by_hotkey: Mapping[str, float], burn_uid: int, netuid: int, network: str, pair: Any, substrate: Any
) -> Sent:
    import bittensor
    from bittensor.intents import SetWeights

    try:
        client = bittensor.Client(network, substrate=substrate)
    except ValueError as error:
        raise UsageError("no such network", where="--network", got=network, expected=str(error)) from None
    async with asyncio.timeout(SECONDS):
        await client.connect()
        try:
            rows = await client.query_map(("SubtensorModule", "Keys"), [netuid])
            weights, lost = seated(by_hotkey, {_address(hotkey): int(uid) for uid, hotkey in rows}, burn_uid)
            intent = SetWeights(netuid=netuid, uids=list(weights), weights=list(weights.values()))
            result = await client.execute(intent, pair)
        finally:
            await client.close()
    if not result.success:
        refusal = result.error
        raise ChainRefused(
            "the chain refused the weights",
            where=f"netuid {netuid}",
            got=(refusal.name or refusal.message) if refusal else result.message,
            remedy=(refusal.description or refusal.remediation or "") if refusal else "",
        )
    return Sent(weights, tuple(lost), result.message, (result.data or {}).get("reveal_round"))


def _address(hotkey: Any) -> str:
    """An account as the chain gives it: an address of any prefix, or its bytes."""
    try:
        return ss58.normalise(hotkey) if isinstance(hotkey, str) else ss58.encode(bytes(hotkey))
    except (AttestError, TypeError, ValueError):
        return repr(hotkey)


def described(sent: Sent) -> str:
    """What was sent, in a line."""
    how = "set" if sent.reveal_round is None else f"committed, opens with round {sent.reveal_round}"
    lost = f"; burned, for they have no seat: {', '.join(sent.lost)}" if sent.lost else ""
    return f"weights of {len(sent.weights)} uids {how}{lost}"
