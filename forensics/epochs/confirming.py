"""Asking a chain about an epoch's anchor: a node, a recording of one, or the file of a rehearsal."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attest.errors import MalformedInput
from attest.keys import ss58
from attest.log.anchor import Anchor
from attest.seeds.epoch_file import Stamp
from attest.seeds.verify import Confirm

from ..chain.anchors import confirm
from ..chain.interface import ChainReader
from ..chain.recorded import MAX_BYTES, Recorded
from ..errors import AnchorInvalid, Unavailable
from . import file_chain

CODE: Final = "anchor_invalid"


def reader_of(name: str) -> ChainReader:
    """A chain that can be asked.

    Args:
        name: A network or a ``ws(s)://`` endpoint; or a file: a recording of a chain, or a rehearsal's chain.

    Raises:
        BadInput: The file is neither.
        UsageError: No such network.
    """
    path = Path(name).expanduser()
    if not path.is_file():
        from ..chain.subtensor import Subtensor

        return Subtensor(name)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unavailable("cannot read", where=str(path), got=error.strerror or str(error)) from None
    return file_chain.recorded(data, path) if file_chain.is_rehearsal(data) else Recorded.parse(data)


def is_rehearsal(chain: ChainReader) -> bool:
    """Whether its word proves nothing to anybody else."""
    return isinstance(chain, file_chain.Rehearsed)


def confirmer(chain: ChainReader) -> Confirm:
    """Asks the chain whether a stamp is where and when it says."""

    def ask(stamp: Stamp) -> None:
        where = f"anchor at block {stamp.block}"
        anchor = Anchor(
            block=stamp.block,
            extrinsic=stamp.extrinsic,
            genesis=bytes.fromhex(stamp.genesis[2:]),
            netuid=stamp.netuid,
            hotkey=ss58.account_id(stamp.hotkey),
            digest=bytes.fromhex(stamp.digest),
            block_hash=bytes.fromhex(stamp.block_hash),
        )
        try:
            confirm(anchor, chain)
        except AnchorInvalid as error:
            raise MalformedInput(error.what, where=where, got=error.got, expected=error.expected, code=CODE) from None
        block = chain.block(stamp.block)
        if block is None or int(block.time.timestamp()) != stamp.block_time:
            got = None if block is None else int(block.time.timestamp())
            raise MalformedInput(
                "the block has another time", where=where, got=got, expected=stamp.block_time, code=CODE
            )

    return ask
