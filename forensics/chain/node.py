"""Subnets on a node: a ``SubnetReader`` and ``TransferReader`` over ``Subtensor``.

State comes from storage maps rather than the runtime's metagraph call: they are the same on every runtime version, and
old blocks can be asked for them. What a block did comes from its events, then from the state that it left behind.
"""

from __future__ import annotations

from typing import Any, Final

from attest.keys import ss58

from ..errors import ChainPruned, ChainUnavailable
from . import decoding_subnet as decode
from .decoding import commitment_of, unusable
from .interface import Block, Commitment
from .observed import Commit, Happenings, Kind, Neuron, SubnetState, Transfer
from .subtensor import COMMITMENT_OF, KEYS, PERMITS, Subtensor

REVEALED: Final = ("Commitments", "RevealedCommitments")
REGISTERED: Final = ("SubtensorModule", "BlockAtRegistration")
AXONS: Final = ("SubtensorModule", "Axons")
OWNER: Final = ("SubtensorModule", "Owner")


class NodeReader:
    """Reads subnets from a node.

    Args:
        node: The connection.
    """

    def __init__(self, node: Subtensor) -> None:
        self._node = node
        self._registrants: dict[tuple[int, int, int], str | None] = {}
        self._places: dict[tuple[int, bytes, int], int | None] = {}

    def genesis(self) -> bytes:
        """Hash of block 0."""
        return self._node.genesis()

    def head(self) -> int:
        """Number of the newest block."""
        return self._node.head()

    def finalized(self) -> int:
        """Number of the newest final block."""
        return self._node.finalized()

    def block(self, number: int) -> Block | None:
        """Hash and time of a block."""
        return self._node.block(number)

    def state(self, netuid: int, at: int) -> SubnetState:
        """Neurons and commitments after a block."""
        block = self._node.block(at)
        if block is None:
            raise ChainUnavailable("the node does not have this block", where=f"block {at}")
        return SubnetState(block, self._neurons(netuid, at), self._commits(netuid, at))

    def happened(self, netuid: int, block: int) -> Happenings:
        """What a block did: commitments that its events name, as its state shows them, swaps and registrations."""
        events = list(decode.happened(self._node.events(block)))
        commits: list[Commit] = []
        for one in decode.touched(events, netuid):
            if one.kind is Kind.REVEALED:
                commits += self._opened(netuid, one.hotkey, block)
            else:
                commits += self._set(netuid, one, block)
        registered = tuple(decode.registrations(events, netuid, block))
        return Happenings(tuple(commits), tuple(decode.swaps(events, netuid, block)), registered)

    def transfers(self, block: int) -> tuple[Transfer, ...]:
        """Transfers between accounts."""
        return decode.transfers(decode.happened(self._node.events(block)), block)

    def _neurons(self, netuid: int, at: int) -> tuple[Neuron, ...]:
        node = self._node
        try:
            hotkeys = {int(uid): decode.address(key) for uid, key in node.storage_map(KEYS, [netuid], at=at)}
            since = {int(uid): int(block) for uid, block in node.storage_map(REGISTERED, [netuid], at=at)}
            axons = {decode.address(key): axon for key, axon in node.storage_map(AXONS, [netuid], at=at)}
            permits = [bool(permit) for permit in node.storage(PERMITS, [netuid], at=at) or []]
            uids = sorted(hotkeys)
            owners = node.storage_batch(OWNER, [[hotkeys[uid]] for uid in uids], at=at)
        except (TypeError, ValueError) as error:
            raise unusable("subnet", error) from None
        return tuple(
            Neuron(
                uid=uid,
                hotkey=hotkeys[uid],
                coldkey=_owner(owner),
                registered=since.get(uid, 0),
                permit=uid < len(permits) and permits[uid],
                endpoint=decode.endpoint(axons.get(hotkeys[uid])),
                registrant=self._registrant(netuid, uid, since.get(uid, 0)),
            )
            for uid, owner in zip(uids, owners, strict=True)
        )

    def _registrant(self, netuid: int, uid: int, block: int) -> str | None:
        """Who registered a uid, by the events of that block; None where they are gone."""
        key = (netuid, uid, block)
        if key not in self._registrants:
            self._registrants[key] = None
            if block:
                try:
                    events = decode.happened(self._node.events(block))
                    found = [one for one in decode.registrations(events, netuid, block) if one.uid == uid]
                    self._registrants[key] = found[-1].hotkey if found else None
                except ChainPruned:
                    pass
        return self._registrants[key]

    def _commits(self, netuid: int, at: int) -> tuple[Commit, ...]:
        standing = self._node.commitments(netuid, at=at).values()
        found = [decode.committed(commitment, self._place(commitment)) for commitment in standing]
        for key, entries in self._node.storage_map(REVEALED, [netuid], at=at):
            found += decode.revealed(decode.address(key), entries)
        return tuple(sorted(found, key=lambda c: (c.block, c.extrinsic, c.hotkey, c.data)))

    def _place(self, commitment: Commitment) -> int | None:
        """The extrinsic that set a commitment, asked once; None where its block's events are gone."""
        key = (commitment.netuid, commitment.hotkey, commitment.block)
        if key not in self._places:
            try:
                self._places[key] = self._node.extrinsic(commitment)
            except ChainPruned:
                return None
        return self._places[key]

    def _set(self, netuid: int, one: decode.Touched, block: int) -> list[Commit]:
        record = self._node.storage(COMMITMENT_OF, [netuid, one.hotkey], at=block)
        if not record:  # set and purged in one block
            return []
        commitment = commitment_of(netuid, ss58.account_id(one.hotkey), record)
        if commitment.block != block:
            return []
        return [decode.committed(commitment, one.extrinsic)]

    def _opened(self, netuid: int, hotkey: str, block: int) -> list[Commit]:
        """Reveals of this block, with where each had been sealed: what the account had committed to a block before."""
        entries = self._node.storage(REVEALED, [netuid, hotkey], at=block)
        opened = [commit for commit in decode.revealed(hotkey, entries) if commit.block == block]
        sealed = self._node.commitment(netuid, ss58.account_id(hotkey), at=block - 1)
        if sealed is None or sealed.sealed_until is None:
            return opened
        place = self._place(sealed)
        return [
            Commit(c.hotkey, c.block, c.extrinsic, c.data, c.kind, sealed_block=sealed.block, sealed_extrinsic=place)
            for c in opened
        ]


def _owner(value: Any) -> str:
    owner = decode.address(value) if value else ""
    return "" if owner == decode.NOBODY else owner
