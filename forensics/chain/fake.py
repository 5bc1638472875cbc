"""A small chain in memory, with the substrate interface that bittensor 11's client talks to.

For tests, the demo and machines without a network: ``Subtensor(signer=..., substrate=FakeSubstrate(...))`` then runs
the very code that a real node would be asked with. It keeps what each block left behind, so old state can be read; it
finalizes with a lag; and it can do what chains do to one: reorganise, refuse, and be unreachable.

Only what this package asks of a substrate is here. Nothing is signed or checked but registration: that is the chain's.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from bittensor import Balance, ChainError, ExtrinsicResult, RpcConnectionError

BLOCK_SECONDS = 12
BLOCKS = 100  # blocks it begins with; older ones are pruned, but for the first
NETWORK = "ws://fake"  # a label of its own, so that nothing cached for a real network is mixed up with it
_START = datetime(2026, 11, 30, 12, tzinfo=UTC)


@dataclass
class FakeBlock:
    """One block and the state after it."""

    number: int
    hash: str
    parent: str
    events: list[dict[str, Any]] = field(default_factory=list)
    state: dict[tuple[str, str], dict[tuple[Any, ...], Any]] = field(default_factory=dict)


class FakeSubstrate:
    """The chain.

    Args:
        height: Number of the block it starts at.
        registered: ``(netuid, address)`` of hotkeys that may commit.
        lag: Blocks between the head and the newest final one.
        name: Two chains of different names have different genesis hashes.
    """

    def __init__(
        self, *, height: int = BLOCKS, registered: Iterable[tuple[int, str]] = (), lag: int = 3, name: str = "fake"
    ) -> None:
        self.token_symbols: dict[int, str] = {}
        self.registered, self.lag = set(registered), lag
        self.down, self.refuses, self.submitted, self.asked = False, "", 0, 0
        self._pruned = 0
        self._name, self._branch = name, 0
        first = max(height - BLOCKS, 0)
        self._blocks: dict[int, FakeBlock] = {}
        self._numbers: dict[str, int] = {}
        for number in sorted({0, first}):
            self._add(FakeBlock(number, self._hash("", number), ""))
        self.height = first
        self.produce(height - first)

    def produce(self, blocks: int = 1) -> None:
        """Add empty blocks."""
        for _ in range(blocks):
            head = self._blocks[self.height]
            number = self.height + 1
            self._add(FakeBlock(number, self._hash(head.hash, number), head.hash, [], dict(head.state)))
            self.height = number

    def reorganise(self, number: int) -> None:
        """Replace block ``number`` and all after it by other, empty ones."""
        blocks = self.height - number + 1
        self._branch += 1
        for gone in range(number, self.height + 1):
            del self._numbers[self._blocks.pop(gone).hash]
        self.height = number - 1
        self.produce(blocks)

    def put(self, module: str, item: str, key: tuple[Any, ...], value: Any) -> None:
        """Set a storage entry in the newest block; None removes it. Older blocks keep what they had."""
        state = self._blocks[self.height].state
        rows = {known: held for known, held in state.get((module, item), {}).items() if known != key}
        state[module, item] = rows if value is None else {**rows, key: value}

    def get(self, module: str, item: str, key: tuple[Any, ...]) -> Any:
        """A storage entry of the newest block."""
        return deepcopy(self._blocks[self.height].state.get((module, item), {}).get(key))

    def emit(self, module: str, name: str, attributes: Any, *, extrinsic: int | None) -> None:
        """Add an event to the newest block, of an extrinsic or (None) of the block itself."""
        block = self._blocks[self.height]
        event = {"module_id": module, "event_id": name, "attributes": attributes}
        phase = "Initialization" if extrinsic is None else "ApplyExtrinsic"
        block.events.append({"phase": phase, "extrinsic_idx": extrinsic, "event": event})
        del self._numbers[block.hash]
        self._add(replace(block, hash=self._hash(block.hash, len(block.events))))

    def next_extrinsic(self) -> int:
        """Number of the next extrinsic in the newest block; the time is number 0."""
        placed = (event["extrinsic_idx"] for event in self._blocks[self.height].events)
        return 1 + max((at for at in placed if at is not None), default=0)

    def prune(self, before: int) -> None:
        """Forget the state and events of the blocks before one, as nodes that are no archive do."""
        self._pruned = before

    async def connect(self) -> None:
        """Nothing to open."""
        self._reach()

    async def close(self) -> None:
        """Nothing to close."""

    def balance(self, rao: int, netuid: int = 0) -> Balance:
        """An amount of the subnet's token."""
        return Balance(rao, netuid)

    async def block_hash(self, block: int | None = None) -> str:
        """Hash of a block, the head's by default."""
        self._reach()
        return self._at(self.height if block is None else block).hash

    async def block_number(self) -> int:
        """Number of the head."""
        self._reach()
        return self.height

    async def finalized_block_number(self) -> int:
        """Number of the newest final block."""
        self._reach()
        return max(self.height - self.lag, 0)

    async def block_time(self) -> float:
        """Seconds between blocks."""
        return float(BLOCK_SECONDS)

    async def get_block(self, block_number: int | None = None, block_hash: str | None = None) -> dict[str, Any] | None:
        """Header, and the one extrinsic that every block has: its time."""
        self._reach()
        number = self.height if block_number is None else block_number
        block = self._found(block_hash) if block_hash else self._blocks.get(number)
        if block is None:
            return None
        stamp = int((_START + timedelta(seconds=BLOCK_SECONDS * block.number)).timestamp() * 1000)
        call = {"call_module": "Timestamp", "call_function": "set", "call_args": [{"name": "now", "value": stamp}]}
        header = {"number": block.number, "hash": block.hash, "parentHash": block.parent}
        return {"header": header, "extrinsics": [{"call": call}]}

    async def query(
        self, module: str, item: str, params: list[Any] | None = None, block_hash: str | None = None
    ) -> Any:
        """One storage entry as it was after a block."""
        self._reach()
        if (module, item) == ("System", "BlockHash"):
            return self._at((params or [0])[0]).hash
        block = self._kept(block_hash)
        if (module, item) == ("System", "Events"):
            return deepcopy(block.events)
        return deepcopy(block.state.get((module, item), {}).get(tuple(params or ())))

    async def query_batch(
        self, module: str, item: str, keys: list[list[Any]], block_hash: str | None = None
    ) -> list[Any]:
        """Several entries of one storage item."""
        return [await self.query(module, item, key, block_hash) for key in keys]

    async def query_map(
        self, module: str, item: str, params: list[Any] | None = None, block_hash: str | None = None
    ) -> list[tuple[Any, Any]]:
        """All entries under a prefix, by what remains of their keys."""
        self._reach()
        prefix, rows = tuple(params or ()), self._kept(block_hash).state.get((module, item), {})
        return [(key[-1], deepcopy(value)) for key, value in rows.items() if key[: len(prefix)] == prefix]

    async def compose(self, call: Any) -> Any:
        """Calls stay what they are."""
        return call

    async def submit(self, call: Any, keypair: Any, **_options: Any) -> ExtrinsicResult:
        """Put a ``set_commitment`` into a block of its own and finalize it."""
        self._reach()
        self.submitted += 1
        who, netuid = keypair.ss58_address, call.params["netuid"]
        if self.refuses or (netuid, who) not in self.registered:
            error = ChainError("refused", self.refuses or "AccountNotAllowedCommit")
            return ExtrinsicResult(success=False, message=error.message, error=error)
        self.produce()
        index = self.include(netuid, who, call.params["info"]["fields"][0])
        number, block_hash = self.height, self._blocks[self.height].hash
        self.produce(self.lag)
        return ExtrinsicResult(success=True, block_hash=block_hash, extrinsic_id=f"{number}-{index:04d}")

    def include(self, netuid: int, address: str, fields: list[Any]) -> int:
        """Commit in the newest block, as any account's extrinsic does; its number in the block."""
        index = self.next_extrinsic()
        sealed = [
            field["TimelockEncrypted"] for field in fields if isinstance(field, dict) and "Timelock" in str(field)
        ]
        record = {"block": self.height, "deposit": 0, "info": {"fields": fields}}
        self.put("Commitments", "CommitmentOf", (netuid, address), record)
        told = {"netuid": netuid, "who": address}
        if sealed:
            told |= {"reveal_round": sealed[0]["reveal_round"]}
        self.emit("Commitments", "TimelockCommitment" if sealed else "Commitment", told, extrinsic=index)
        self.emit("System", "ExtrinsicSuccess", {}, extrinsic=index)
        return index

    def _add(self, block: FakeBlock) -> None:
        self._blocks[block.number], self._numbers[block.hash] = block, block.number

    def _reach(self) -> None:
        self.asked += 1
        if self.down:
            raise RpcConnectionError("no route to host")

    def _at(self, number: int) -> FakeBlock:
        if number not in self._blocks:
            raise ChainError(f"no block at height {number}")
        return self._blocks[number]

    def _found(self, block_hash: str | None) -> FakeBlock:
        if block_hash is None:
            return self._blocks[self.height]
        if block_hash not in self._numbers:
            raise ChainError(f"no block {block_hash}")
        return self._blocks[self._numbers[block_hash]]

    def _kept(self, block_hash: str | None) -> FakeBlock:
        block = self._found(block_hash)
        if block.number < self._pruned:
            raise ChainError(f"State discarded for {block.hash}. Make this request of an archive node.")
        return block

    def _hash(self, parent: str, number: int) -> str:
        branch = self._branch if number else 0
        return "0x" + sha256(f"{self._name}|{parent}|{number}|{branch}".encode()).hexdigest()
