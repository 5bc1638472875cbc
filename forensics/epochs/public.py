"""The public file of an epoch, out of the service's store: what ``seeds verify`` takes."""

from __future__ import annotations

from attest.log.note import open_checkpoint
from attest.log.proof import parse_receipt
from attest.seeds.epoch_file import SCHEMA, EpochFile

from .errors import EpochHidden
from .shelf import Shelf
from .statements import COMMITMENT, REVEAL


def epoch_file(shelf: Shelf, number: int) -> EpochFile:
    """Everything public of one epoch as it stands now.

    Raises:
        EpochUnknown: No such epoch.
        EpochHidden: Its commitment is not in the log yet.
    """
    epoch, log = shelf.epoch(number), shelf.log
    said = shelf.statements(epoch)
    committed = said.pop(COMMITMENT)
    if committed.leaf is None:
        raise EpochHidden("its commitment is not in the log yet", where=f"epoch {number}", remedy="Try again.")
    log.checkpoint()
    receipt = bytes(committed.receipt or log.prove(committed.leaf).encode())
    revealed = said.pop(REVEAL, None)
    reveal = None if revealed is None or revealed.leaf is None else log.prove(revealed.leaf).encode()
    steps = [log.prove(row.leaf).encode() for row in said.values() if row.leaf is not None]
    return EpochFile(
        schema=SCHEMA,
        log=str(log.key),
        plan=epoch.plan,
        commitment=receipt.decode(),
        batch_path=tuple(node.hex() for node in epoch.place.path),
        stamps=() if epoch.stamp is None else (epoch.stamp,),
        steps=tuple(step.decode() for step in steps),
        mix_signature=_hex(epoch.mix_signature),
        open_signature=_hex(epoch.open_signature),
        reveal=None if reveal is None else reveal.decode(),
        consistency=None if reveal is None else _consistency(shelf, receipt, reveal),
    )


def _consistency(shelf: Shelf, earlier: bytes, later: bytes) -> tuple[str, ...]:
    sizes = [
        open_checkpoint(parse_receipt(receipt).checkpoint, log=shelf.log.key).checkpoint.size
        for receipt in (earlier, later)
    ]
    return tuple(node.hex() for node in shelf.log.prove_consistency(*sizes))


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
