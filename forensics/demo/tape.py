"""The demo's chain: a subnet in memory, asked through the code that asks a node, and kept as a recording.

The worker follows the recording's file. ``Tape.show`` makes the file longer by what the next look at the chain would
have shown, so that commitments arrive in the order of their blocks, over several looks, as they do on a real subnet.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from forensics.chain.fake import NETWORK as NODE
from forensics.chain.fake import FakeSubstrate
from forensics.chain.fake_subnet import FakeSubnet
from forensics.chain.node import NodeReader
from forensics.chain.recorded_subnet import Recorder, SubnetRecording, encode
from forensics.chain.subtensor import Subtensor
from forensics.demo.subnet import SILENT, WAVES, Miner

NETUID = 120
NETWORK = "demo"
BLOCKS_APART = 25
"""Between two commitments; five minutes."""
CACHE = "BTCLI_TOKEN_SYMBOLS_CACHE"  # where bittensor writes token symbols when it opens a connection


@dataclass(frozen=True)
class Tape:
    """A recording of the subnet, one moment a look.

    Attributes:
        recording: Moment 0 shows everybody registered, each later one a further wave of commitments.
        blocks: Block of each hotkey's commitment.
        uids: Uid of each hotkey.
        path: The file that the worker follows.
    """

    recording: SubnetRecording
    blocks: Mapping[str, int]
    uids: Mapping[str, int]
    path: Path

    @property
    def looks(self) -> int:
        """How many moments there are."""
        return len(self.recording.moments)

    def show(self, moments: int) -> None:
        """Let the file hold the first ``moments`` moments, written whole or not at all."""
        shown = replace(self.recording, moments=self.recording.moments[:moments])
        partial = self.path.with_suffix(".part")
        partial.write_bytes(encode(shown))
        os.replace(partial, self.path)


def record(path: Path, waves: Sequence[Sequence[Miner]] = WAVES, silent: Sequence[Miner] = SILENT) -> Tape:
    """Play a subnet on the fake chain and record it; nothing is written before ``show``.

    Args:
        path: For the recording; bittensor keeps a note beside it.
        waves: Commitments by the look that shows them.
        silent: Who is registered besides.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault(CACHE, str(path.parent / "symbols.json"))
    chain = FakeSubstrate(name="forensics demo")
    subnet = FakeSubnet(chain, NETUID)
    node = Subtensor(NODE, substrate=chain)
    recorder = Recorder(NodeReader(node))
    try:
        everybody = [*(miner for wave in waves for miner in wave), *silent]
        uids = {miner.hotkey: _register(subnet, miner) for miner in everybody}
        read = _look(recorder, chain, None)
        blocks = {}
        for wave in waves:
            for miner in wave:
                chain.produce(BLOCKS_APART)
                named = {"model": miner.repo, "revision": miner.revision}
                subnet.commit(miner.hotkey, json.dumps(named).encode())
                blocks[miner.hotkey] = chain.height
            read = _look(recorder, chain, read)
        recording = recorder.recording()
    finally:
        node.close()
    assert recording is not None  # noqa: S101 - a look was kept above
    return Tape(recording, blocks, uids, path)


def _register(subnet: FakeSubnet, miner: Miner) -> int:
    subnet.substrate.produce()
    return subnet.register(miner.hotkey, miner.coldkey)


def _look(recorder: Recorder, chain: FakeSubstrate, read: int | None) -> int:
    """Read every block since ``read`` up to what is there now, once that is final; the newest block read."""
    newest = chain.height
    chain.produce(chain.lag)
    for block in range(newest if read is None else read + 1, newest + 1):
        recorder.happened(NETUID, block)
    recorder.state(NETUID, newest)
    return newest
