"""A Bittensor node, asked through bittensor 11's client.

State is read at numbered blocks, so old ones need an archive node, which the client falls back to by itself. Where a
commitment stands inside its block is taken from the block's events. Committing waits for finality (about 30 s).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import bittensor
from bittensor import calls

from attest.keys import ss58

from ..errors import ChainPruned, ChainRefused, ChainUnavailable, UsageError
from .decoding import account, commitment_of, extrinsic_of, hash_of
from .interface import DIGEST_SIZE, Block, Commitment
from .loop import Loop

T = TypeVar("T")
COMMITMENT_OF = ("Commitments", "CommitmentOf")
BLOCK_HASH = ("System", "BlockHash")
EVENTS = ("System", "Events")
PERMITS = ("SubtensorModule", "ValidatorPermit")
KEYS = ("SubtensorModule", "Keys")
READ_SECONDS = 60.0  # the client changes endpoints by itself; this ends a node that answers nothing
WRITE_SECONDS = 300.0  # a transaction lives for 128 blocks, finality takes two or three
_PRUNED = "State discarded"  # how bittensor says that neither the node nor its archive has a block's state
_REMEDY = {
    ChainPruned: "Name an archive node.",
    ChainUnavailable: "It is asked again later; name another endpoint if this lasts.",
}
_FAILURES = (bittensor.BittensorError, OSError, TimeoutError)


class Subtensor:
    """One connection, opened when first needed; safe to use from several threads.

    Args:
        network: ``finney``, ``test``, ``local`` or a ``ws://`` or ``wss://`` endpoint.
        signer: A wallet's hotkey, to commit with; without one the chain can only be read.
        substrate: Used instead of a connection; a ``FakeSubstrate`` needs no network.
    """

    def __init__(self, network: str = "finney", *, signer: Any = None, substrate: Any = None) -> None:
        try:
            self._client = bittensor.Client(network, substrate=cast("bittensor.Substrate | None", substrate))
        except ValueError as error:
            raise UsageError("no such network", where="network", got=network, expected=str(error)) from None
        self._network, self._signer = network, signer
        self._genesis, self._connected = b"", False
        self._loop = Loop()

    @property
    def hotkey(self) -> bytes:
        """The account that signs.

        Raises:
            UsageError: This connection has no key.
        """
        if self._signer is None:
            raise UsageError("no hotkey to commit with", where=self._network, remedy="Name a wallet and hotkey.")
        return bytes(self._signer.public_key)

    def close(self) -> None:
        """Close the connection; it opens again when asked something."""
        if self._connected:
            self._connected = False
            self._loop.call(self._client.close(), seconds=READ_SECONDS)
        self._loop.close()

    def genesis(self) -> bytes:
        """Hash of block 0, asked once."""
        if not self._genesis:
            # the pallet forgets block hashes after 256 blocks, but keeps that of block 0
            found = self._ask("its genesis hash", self._client.query(BLOCK_HASH, [0]))
            self._genesis = hash_of(found)
        return self._genesis

    def finalized(self) -> int:
        """Number of the newest final block."""
        return int(self._ask("its newest final block", self._client.finalized_block()))

    def head(self) -> int:
        """Number of the newest block, final or not."""
        return int(self._ask("its newest block", self._client.block()))

    def storage(self, item: tuple[str, str], key: list[Any], *, at: int) -> Any:
        """One storage entry as it was after a block, as bittensor decodes it; None when there is none."""
        return self._ask(f"{item[1]} at block {at}", self._client.query(item, key, block=at))

    def storage_map(self, item: tuple[str, str], key: list[Any], *, at: int) -> list[tuple[Any, Any]]:
        """All entries under a prefix as they were after a block, each with what remains of its key."""
        return self._ask(f"{item[1]} at block {at}", self._client.query_map(item, key, block=at))

    def storage_batch(self, item: tuple[str, str], keys: list[list[Any]], *, at: int) -> list[Any]:
        """Several entries of one storage item, in the order of the keys."""
        if not keys:
            return []
        return self._ask(f"{item[1]} at block {at}", self._client.query_batch(item, keys, block=at))

    def events(self, block: int) -> list[Any]:
        """Events of a block, as bittensor decodes them."""
        return self._ask(f"block {block}'s events", self._client.query(EVENTS, block=block)) or []

    def block(self, number: int) -> Block | None:
        """Hash and time of a block."""
        found = self._ask(f"block {number}", self._client.block_info(number))
        return None if found is None else Block(found.number, hash_of(found.hash), found.timestamp)

    def commitment(self, netuid: int, hotkey: bytes, *, at: int) -> Commitment | None:
        """One account's commitment at a block."""
        key = [netuid, ss58.encode(hotkey)]
        record = self._ask(f"block {at}'s state", self._client.query(COMMITMENT_OF, key, block=at))
        return commitment_of(netuid, hotkey, record) if record else None

    def commitments(self, netuid: int, *, at: int) -> dict[bytes, Commitment]:
        """Everyone's commitments at a block."""
        asked = self._client.query_map(COMMITMENT_OF, [netuid], block=at)
        rows = self._ask(f"block {at}'s state", asked)
        found = [commitment_of(netuid, account(address), record) for address, record in rows]
        return {commitment.hotkey: commitment for commitment in found}

    def extrinsic(self, commitment: Commitment) -> int | None:
        """Where in its block a commitment was made."""
        return extrinsic_of(commitment, self.events(commitment.block))

    def validators(self, netuid: int, *, at: int) -> list[str]:
        """Addresses of a subnet's hotkeys that had a validator's permit at a block, by uid."""
        permits = self._ask(f"block {at}'s permits", self._client.query(PERMITS, [netuid], block=at)) or []
        rows = self._ask(f"block {at}'s hotkeys", self._client.query_map(KEYS, [netuid], block=at))
        hotkeys = {int(uid): ss58.encode(account(address)) for uid, address in rows}
        return [hotkeys[uid] for uid, permitted in enumerate(permits) if permitted and uid in hotkeys]

    def commit(self, netuid: int, digest: bytes) -> Commitment:
        """Commit to a digest as the signer and wait for finality."""
        if len(digest) != DIGEST_SIZE:
            raise UsageError("not a SHA-256 digest", got=f"{len(digest)} bytes", expected=f"{DIGEST_SIZE} bytes")
        hotkey = self.hotkey
        call = calls.Commitments.set_commitment(netuid=netuid, info={"fields": [[{"Sha256": "0x" + digest.hex()}]]})
        sent = self._client.submit_call(call, self._signer, signer="hotkey")
        result = self._ask("a commitment to be included", sent, seconds=WRITE_SECONDS)
        if not result.success:
            raise _refused(result, netuid, hotkey)
        block = _block_of(result)
        made = self.commitment(netuid, hotkey, at=block)
        if made is None or made.block != block or digest not in made.digests:
            raise ChainRefused(
                "the chain took the commitment and does not show it",
                where=f"netuid {netuid}, block {block}",
                got="none" if made is None else [found.hex() for found in made.digests],
                expected=digest.hex(),
                remedy="Is another process committing with this hotkey? Give the log its own.",
            )
        return made

    def _ask(self, what: str, asked: Coroutine[Any, Any, T], *, seconds: float = READ_SECONDS) -> T:
        try:
            return self._loop.call(self._after_connecting(asked), seconds=seconds)
        except _FAILURES as error:
            kind = ChainPruned if _PRUNED in str(error) else ChainUnavailable
            raise kind(
                f"the chain could not be asked for {what}",
                where=self._network,
                got=f"{type(error).__name__}: {error}",
                remedy=_REMEDY[kind],
            ) from None

    async def _after_connecting(self, asked: Coroutine[Any, Any, T]) -> T:
        try:
            if not self._connected:
                await self._client.connect()
                self._connected = True
        except BaseException:
            asked.close()
            raise
        return await asked


def _block_of(result: bittensor.ExtrinsicResult) -> int:
    number, gap, _ = (result.extrinsic_id or "").partition("-")
    if not gap or not number.isdecimal():
        raise ChainUnavailable("the node does not say which block has it", got=result.extrinsic_id)
    return int(number)


def _refused(result: bittensor.ExtrinsicResult, netuid: int, hotkey: bytes) -> ChainRefused:
    error = result.error
    return ChainRefused(
        "the chain refused the commitment",
        where=f"netuid {netuid}, hotkey {ss58.encode(hotkey)}",
        got=(error.name or error.message) if error else result.message,
        remedy=(error.description or error.remediation) if error else "",
    )
