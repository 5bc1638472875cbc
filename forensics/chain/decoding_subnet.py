"""A subnet in what a node answers: storage entries and events, as bittensor decodes them, as ``observed`` values.

Pure functions. Text that miners wrote passes through as bytes, whatever it is; an answer of a shape that the runtime
does not have is an unusable node.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from attest.errors import AttestError
from attest.keys import ss58

from ..errors import ChainUnavailable
from .decoding import unusable
from .interface import Commitment
from .observed import BEFORE_EXTRINSICS, Commit, Kind, Registered, Swap, Transfer

NOBODY: Final = ss58.encode(bytes(32))
"""What the chain answers for the owner of a hotkey that has none."""
_COMMITS: Final = {"Commitment": Kind.PLAIN, "TimelockCommitment": Kind.SEALED, "CommitmentRevealed": Kind.REVEALED}
_MODE_LONG: Final = 0b11  # SCALE compact integers: https://docs.polkadot.com/polkadot-protocol/basics/data-encoding


@dataclass(frozen=True)
class Happened:
    """An event of a block: pallet, name, attributes, and the extrinsic that caused it (None: the block itself)."""

    module: str
    name: str
    attributes: Any
    extrinsic: int | None


@dataclass(frozen=True)
class Touched:
    """An account whose commitment an event says has changed."""

    hotkey: str
    kind: Kind
    extrinsic: int


def address(value: Any) -> str:
    """An account at prefix 42.

    Raises:
        ChainUnavailable: It is none.
    """
    try:
        return ss58.normalise(str(value))
    except AttestError as error:
        raise unusable("address", error) from None


def happened(records: Iterable[Any]) -> Iterator[Happened]:
    """The events of a block.

    Raises:
        ChainUnavailable: These are no events.
    """
    try:
        for record in records:
            event, at = record["event"], record.get("extrinsic_idx")
            yield Happened(
                str(event["module_id"]), str(event["event_id"]), event["attributes"], None if at is None else int(at)
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise unusable("events", error) from None


def touched(events: Iterable[Happened], netuid: int) -> list[Touched]:
    """Accounts whose commitment on a subnet a block changed; each once for each kind, at the last extrinsic."""
    found: dict[tuple[str, Kind], Touched] = {}
    for event in events:
        kind = _COMMITS.get(event.name) if event.module == "Commitments" else None
        if kind is None or _number(event, "netuid") != netuid:
            continue
        at = BEFORE_EXTRINSICS if event.extrinsic is None else event.extrinsic
        one = Touched(address(_named(event, "who")), kind, at)
        found[one.hotkey, kind] = one
    return list(found.values())


def swaps(events: Iterable[Happened], netuid: int, block: int) -> list[Swap]:
    """Hotkeys that a block swapped on this subnet or on all of them."""
    found = []
    for event in events:
        here = event.name == "HotkeySwappedOnSubnet" and _number(event, "netuid") == netuid
        if event.module == "SubtensorModule" and (here or event.name == "HotkeySwapped"):
            old, new = address(_named(event, "old_hotkey")), address(_named(event, "new_hotkey"))
            found.append(Swap(old, new, block, event.extrinsic or BEFORE_EXTRINSICS))
    return found


def registrations(events: Iterable[Happened], netuid: int, block: int) -> list[Registered]:
    """Uids of a subnet that a block gave away (``NeuronRegistered(netuid, uid, hotkey)``)."""
    found = []
    for event in events:
        if (event.module, event.name) != ("SubtensorModule", "NeuronRegistered"):
            continue
        subnet, uid, hotkey = _unnamed(event, 3)
        if subnet == netuid:
            found.append(Registered(int(uid), address(hotkey), block, event.extrinsic or BEFORE_EXTRINSICS))
    return found


def transfers(events: Iterable[Happened], block: int) -> tuple[Transfer, ...]:
    """Balance that moved between accounts; amounts in rao."""
    moved = [event for event in events if (event.module, event.name) == ("Balances", "Transfer")]
    return tuple(
        Transfer(address(_named(e, "from")), address(_named(e, "to")), _number(e, "amount"), block) for e in moved
    )


def committed(commitment: Commitment, extrinsic: int | None) -> Commit:
    """A standing commitment as it is stored: raw bytes, then digests as ``sha256:...``, a line each."""
    sealed = commitment.sealed_until is not None
    lines = [commitment.data] if commitment.data else []
    lines += [b"sha256:" + digest.hex().encode() for digest in commitment.digests]
    return Commit(
        hotkey=ss58.encode(commitment.hotkey),
        block=commitment.block,
        extrinsic=extrinsic if extrinsic is not None else BEFORE_EXTRINSICS,
        data=b"\n".join(lines),
        kind=Kind.SEALED if sealed and not lines else Kind.PLAIN,
        exact=extrinsic is not None,
        reveal_round=commitment.sealed_until,
    )


def revealed(hotkey: str, entries: Any) -> list[Commit]:
    """``RevealedCommitments``: pairs of what was opened and the block that opened it.

    Raises:
        ChainUnavailable: These are no such pairs.
    """
    try:
        return [
            Commit(hotkey, int(block), BEFORE_EXTRINSICS, plaintext(data), Kind.REVEALED)
            for data, block in entries or ()
        ]
    except (TypeError, ValueError) as error:
        raise unusable("reveal", error) from None


def plaintext(value: Any) -> bytes:
    """What was sealed, without the length that SCALE puts before it.

    bittensor gives bytes as text where they are UTF-8 and as ``0x`` hex where they are not. The length is dropped only
    where it is exactly that of the rest: the chain takes any plaintext, and who left it out still said something.
    """
    raw = bytes(value) if isinstance(value, list | tuple | bytes | bytearray) else _unhexed(str(value))
    width, length = _compact(raw)
    return raw[width:] if width and length == len(raw) - width else raw


def endpoint(axon: Any) -> str | None:
    """``ip:port`` that a neuron serves; None when it serves nothing or nothing that is an address."""
    try:
        ip, port = int(axon["ip"]), int(axon["port"])
        if not ip or not 0 <= port < 1 << 16:
            return None
        if int(axon.get("ip_type") or 4) == 6:
            return f"[{ipaddress.IPv6Address(ip)}]:{port}"
        return f"{ipaddress.IPv4Address(ip)}:{port}"
    except (KeyError, TypeError, ValueError):  # a miner chooses these numbers
        return None


def _unhexed(text: str) -> bytes:
    if text.startswith("0x"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            pass
    return text.encode("utf-8", "surrogateescape")


def _compact(raw: bytes) -> tuple[int, int]:
    """Width and value of the SCALE compact integer that ``raw`` begins with; width 0 when it does not hold one."""
    if not raw:
        return 0, 0
    mode = raw[0] & _MODE_LONG
    if mode == _MODE_LONG:
        width = 5 + (raw[0] >> 2)
        return (width, int.from_bytes(raw[1:width], "little")) if len(raw) >= width else (0, 0)
    width = (1, 2, 4)[mode]
    return (width, int.from_bytes(raw[:width], "little") >> 2) if len(raw) >= width else (0, 0)


def _named(event: Happened, name: str) -> Any:
    try:
        return event.attributes[name]
    except (KeyError, TypeError, IndexError) as error:
        raise unusable(f"{event.name} event", error) from None


def _number(event: Happened, name: str) -> int:
    try:
        return int(_named(event, name))
    except (TypeError, ValueError) as error:
        raise unusable(f"{event.name} event", error) from None


def _unnamed(event: Happened, count: int) -> list[Any]:
    values = event.attributes
    if isinstance(values, dict):
        values = list(values.values())
    if not isinstance(values, list | tuple) or len(values) != count:
        raise ChainUnavailable(f"the node's answer is no {event.name} event", where="chain", got=str(values)[:80])
    return list(values)
