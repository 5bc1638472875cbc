"""A whole subnet on the fake chain: what miners, validators and the chain itself do to it, one call each.

Everything lands in the newest block and leaves the storage entries and events that the runtime leaves, so that a reader
of a real node reads this one. ``produce`` on the substrate makes the next block.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from .fake import FakeSubstrate

MODULE = "SubtensorModule"
MAX_REVEALS = 10
RAW_BYTES = 128  # of one Raw field; a commitment takes three


class FakeSubnet:
    """One subnet.

    Args:
        substrate: The chain.
        netuid: Its number.
        size: Uids there are; when all are taken, the oldest registration is replaced.
    """

    def __init__(self, substrate: FakeSubstrate, netuid: int, *, size: int = 256) -> None:
        self.substrate, self.netuid, self.size = substrate, netuid, size

    def register(self, hotkey: str, coldkey: str) -> int:
        """Give a uid to a hotkey; whoever had it is deregistered and loses all commitments. The uid."""
        uid = self._free()
        chain, old = self.substrate, self.hotkey(uid)
        if old is not None:
            self._purge(old)
        chain.put(MODULE, "Keys", (self.netuid, uid), hotkey)
        chain.put(MODULE, "Uids", (self.netuid, hotkey), uid)
        chain.put(MODULE, "BlockAtRegistration", (self.netuid, uid), chain.height)
        chain.put(MODULE, "Owner", (hotkey,), coldkey)
        self.permit(uid, False)
        chain.registered.add((self.netuid, hotkey))
        self._done(MODULE, "NeuronRegistered", [self.netuid, uid, hotkey])
        return uid

    def swap(self, old: str, new: str, *, everywhere: bool = False) -> None:
        """Put another hotkey in the place of one; commitments stay with the old key, as on the real chain."""
        chain, uid = self.substrate, self.uid(old)
        coldkey = chain.get(MODULE, "Owner", (old,))
        for item, key, value in (
            ("Keys", (self.netuid, uid), new),
            ("Uids", (self.netuid, new), uid),
            ("Uids", (self.netuid, old), None),
            ("Owner", (new,), coldkey),
        ):
            chain.put(MODULE, item, key, value)
        chain.registered.add((self.netuid, new))
        told = {"coldkey": coldkey, "old_hotkey": old, "new_hotkey": new}
        if everywhere:
            self._done(MODULE, "HotkeySwapped", told)
        else:
            self._done(MODULE, "HotkeySwappedOnSubnet", told | {"netuid": self.netuid})

    def commit(self, hotkey: str, data: bytes) -> int:
        """Commit to data in the open; its extrinsic."""
        chunks = [data[at : at + RAW_BYTES] for at in range(0, len(data), RAW_BYTES)] or [b""]
        return self.substrate.include(
            self.netuid, hotkey, [{f"Raw{len(chunk)}": "0x" + chunk.hex()} for chunk in chunks]
        )

    def commit_digest(self, hotkey: str, digest: bytes) -> int:
        """Commit to a SHA-256 digest; its extrinsic."""
        return self.substrate.include(self.netuid, hotkey, [{"Sha256": "0x" + digest.hex()}])

    def seal(self, hotkey: str, *, reveal_round: int = 1) -> int:
        """Commit to something under a timelock; its extrinsic."""
        sealed = {"TimelockEncrypted": {"encrypted": "0x00", "reveal_round": reveal_round}}
        return self.substrate.include(self.netuid, hotkey, [sealed])

    def reveal(self, hotkey: str, *data: bytes) -> None:
        """Open what was sealed, as the chain does before a block's first extrinsic; the last ten reveals stay."""
        chain, key = self.substrate, (self.netuid, hotkey)
        kept = chain.get("Commitments", "RevealedCommitments", key) or []
        for one in data:
            kept.append((decoded(compact(len(one)) + one), chain.height))
            told = {"netuid": self.netuid, "who": hotkey}
            chain.emit("Commitments", "CommitmentRevealed", told, extrinsic=None)
        chain.put("Commitments", "RevealedCommitments", key, kept[-MAX_REVEALS:])
        chain.put("Commitments", "CommitmentOf", key, None)

    def seal_and_reveal(self, hotkey: str, *data: bytes, blocks: int = 2) -> None:
        """Seal now and open some blocks later, which are made."""
        self.seal(hotkey)
        self.substrate.produce(blocks)
        self.reveal(hotkey, *data)

    def permit(self, uid: int, permitted: bool = True) -> None:
        """Give or take a validator's permit."""
        permits = self.substrate.get(MODULE, "ValidatorPermit", (self.netuid,)) or []
        permits += [False] * (uid + 1 - len(permits))
        permits[uid] = permitted
        self.substrate.put(MODULE, "ValidatorPermit", (self.netuid,), permits)

    def serve(self, hotkey: str, endpoint: str) -> None:
        """Publish an ``ip:port``."""
        host, _, port = endpoint.rpartition(":")
        ip = ipaddress.ip_address(host.strip("[]"))
        axon = {"ip": int(ip), "port": int(port), "ip_type": ip.version}
        self.substrate.put(MODULE, "Axons", (self.netuid, hotkey), axon)

    def transfer(self, source: str, target: str, amount: int) -> None:
        """Move balance."""
        self._done("Balances", "Transfer", {"from": source, "to": target, "amount": amount})

    def own(self, hotkey: str, coldkey: str) -> None:
        """Give a hotkey another owner."""
        self.substrate.put(MODULE, "Owner", (hotkey,), coldkey)

    def hotkey(self, uid: int) -> str | None:
        """Who has a uid now."""
        found = self.substrate.get(MODULE, "Keys", (self.netuid, uid))
        return None if found is None else str(found)

    def uid(self, hotkey: str) -> int:
        """The uid that a hotkey has now."""
        return int(self.substrate.get(MODULE, "Uids", (self.netuid, hotkey)))

    def _free(self) -> int:
        for uid in range(self.size):
            if self.hotkey(uid) is None:
                return uid
        since = {u: self.substrate.get(MODULE, "BlockAtRegistration", (self.netuid, u)) for u in range(self.size)}
        return min(since, key=lambda uid: (since[uid], uid))

    def _purge(self, hotkey: str) -> None:
        for module, item in (
            ("Commitments", "CommitmentOf"),
            ("Commitments", "RevealedCommitments"),
            (MODULE, "Uids"),
            (MODULE, "Axons"),
        ):
            self.substrate.put(module, item, (self.netuid, hotkey), None)
        self.substrate.registered.discard((self.netuid, hotkey))

    def _done(self, module: str, name: str, attributes: Any) -> None:
        index = self.substrate.next_extrinsic()
        self.substrate.emit(module, name, attributes, extrinsic=index)
        self.substrate.emit("System", "ExtrinsicSuccess", {}, extrinsic=index)


def compact(number: int) -> bytes:
    """A length as SCALE writes it."""
    if number < 1 << 6:
        return bytes([number << 2])
    if number < 1 << 14:
        return ((number << 2) | 1).to_bytes(2, "little")
    return ((number << 2) | 2).to_bytes(4, "little")


def decoded(raw: bytes) -> str:
    """Bytes as bittensor hands them over: text where they are UTF-8, else hex."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "0x" + raw.hex()
