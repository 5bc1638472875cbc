"""What a node answers, as values of ``interface``: pure functions over the plain values that bittensor decodes.

A node is not trusted to answer sensibly: an answer of another shape is an unusable node, not a crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from attest.errors import AttestError
from attest.keys import ss58

from ..errors import ChainUnavailable
from .interface import DIGEST_SIZE, Commitment


def commitment_of(netuid: int, hotkey: bytes, record: Any) -> Commitment:
    """A ``Commitments.CommitmentOf`` entry: ``{"block", "deposit", "info": {"fields": [...]}}``.

    Raises:
        ChainUnavailable: It is something else.
    """
    try:
        fields = list(_variants(record["info"]["fields"]))
        return Commitment(
            netuid=netuid,
            hotkey=hotkey,
            block=int(record["block"]),
            data=b"".join(_bytes(value) for name, value in fields if name.startswith("Raw")),
            digests=tuple(_digest(value) for name, value in fields if name == "Sha256"),
            sealed_until=max((int(v["reveal_round"]) for n, v in fields if n == "TimelockEncrypted"), default=None),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unusable("commitment", error) from None


def extrinsic_of(commitment: Commitment, events: Any) -> int | None:
    """The last extrinsic of a block whose event says that this account committed on this subnet.

    The event counts, not the extrinsic's call: a commitment may be wrapped in a batch or sent by a proxy.
    A block that commits twice for one account keeps the later, so that is the one the state shows.

    Raises:
        ChainUnavailable: These are no events.
    """
    try:
        found = [
            int(record["extrinsic_idx"])
            for record in events
            if record.get("extrinsic_idx") is not None and _commits(record["event"], commitment)
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unusable("events", error) from None
    return max(found, default=None)


def account(address: Any) -> bytes:
    """The account of an address, whatever its prefix.

    Raises:
        ChainUnavailable: It is none.
    """
    try:
        return ss58.account_id(str(address))
    except AttestError as error:
        raise unusable("address", error) from None


def hash_of(value: Any) -> bytes:
    """A 32-byte hash in hex.

    Raises:
        ChainUnavailable: It is none.
    """
    try:
        return _digest(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise unusable("hash", error) from None


def _variants(fields: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Fields are enums: ``"None"`` without a payload, ``{"Raw5": "0x.."}`` with one."""
    for field in fields:
        yield from field.items() if isinstance(field, dict) else [(str(field), None)]


def _commits(event: dict[str, Any], commitment: Commitment) -> bool:
    if event["module_id"] != "Commitments" or event["event_id"] not in ("Commitment", "TimelockCommitment"):
        return False
    attributes = event["attributes"]
    return int(attributes["netuid"]) == commitment.netuid and account(attributes["who"]) == commitment.hotkey


def _bytes(value: Any) -> bytes:
    return bytes.fromhex(value.removeprefix("0x"))


def _digest(value: Any) -> bytes:
    raw = _bytes(value)
    if len(raw) != DIGEST_SIZE:
        raise ValueError(f"{len(raw)} bytes")
    return raw


def unusable(what: str, error: Exception) -> ChainUnavailable:
    """An answer of a shape that the runtime does not have."""
    return ChainUnavailable(
        f"the node's answer is no {what}",
        where="chain",
        got=f"{type(error).__name__}: {error}",
        remedy="Ask another node, or install the bittensor version that matches the runtime.",
    )
