"""Receipts (C2SP tlog-proof): one file that proves, offline, that a leaf is in a log.

    c2sp.org/tlog-proof@v1
    extra <base64 of the leaf>
    index <number of the leaf>
    <audit path, one base64 hash a line>

    <signed checkpoint>

The format leaves ``extra`` unauthenticated; here it is the leaf itself, and it is believed only after its hash was
proven to be in the tree.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import NoteInvalid, ProofInvalid, ReceiptInvalid
from .merkle import HASH_SIZE, MAX_SIZE, hash_leaf, verify_inclusion
from .note import MAX_NOTE, NoteKey, SignedCheckpoint, decode_base64, open_checkpoint
from .tiles import MAX_LEAF

HEADER = "c2sp.org/tlog-proof@v1"
SUFFIX = ".tlog-proof"
MAX_PATH = 63
MAX_RECEIPT = 2 * MAX_LEAF + MAX_NOTE
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})")


@dataclass(frozen=True)
class Receipt:
    """A leaf, where it is said to be, the path to the root, and the checkpoint with that root; nothing verified."""

    index: int
    path: tuple[bytes, ...]
    checkpoint: bytes
    leaf: bytes | None = None

    def encode(self) -> bytes:
        """The bytes of the file."""
        extra = [] if self.leaf is None else [f"extra {base64.b64encode(self.leaf).decode()}"]
        path = [base64.b64encode(node).decode() for node in self.path]
        return "\n".join([HEADER, *extra, f"index {self.index}", *path, "", ""]).encode() + self.checkpoint


@dataclass(frozen=True)
class ProvenLeaf:
    """What a verified receipt proves: this leaf has this number in the log with this signed checkpoint."""

    leaf: bytes
    index: int
    signed: SignedCheckpoint


def parse_receipt(raw: bytes) -> Receipt:
    """Read a receipt without believing it.

    Raises:
        ReceiptInvalid: It is too long or not in the one form the format allows.
    """
    if len(raw) > MAX_RECEIPT:
        raise ReceiptInvalid("receipt is too long", got=len(raw), expected=f"at most {MAX_RECEIPT} bytes")
    head, gap, checkpoint = raw.partition(b"\n\n")
    if not gap:
        raise ReceiptInvalid("not a receipt", expected="proof, a blank line, checkpoint")
    try:
        lines = head.decode("ascii").split("\n")
        return _parse_lines(lines, checkpoint)
    except UnicodeDecodeError:
        raise ReceiptInvalid("proof is not ASCII") from None
    except NoteInvalid as error:
        raise ReceiptInvalid(error.what, where=error.where, got=error.got, expected=error.expected) from None


def verify_receipt(
    raw: bytes, *, log: NoteKey, witnesses: Sequence[NoteKey] = (), quorum: int = 0, leaf: bytes | None = None
) -> ProvenLeaf:
    """Verify a receipt with nothing but the keys one trusts.

    Args:
        raw: The file.
        log: Key of the log.
        witnesses: Keys of trusted witnesses.
        quorum: How many of them must have cosigned.
        leaf: The leaf one expects; needed if the file does not hold it.

    Raises:
        ReceiptInvalid: Malformed, without a leaf, or of another leaf than expected.
        ProofInvalid: The leaf is not in the tree of the checkpoint.
        NoteInvalid: The checkpoint is not signed by the log, or cosigned by too few.
    """
    receipt = parse_receipt(raw)
    found = receipt.leaf if receipt.leaf is not None else leaf
    if found is None:
        raise ReceiptInvalid("receipt does not hold its leaf", remedy="Give the leaf it is for.")
    if leaf is not None and leaf != found:
        raise ReceiptInvalid("receipt is for another leaf", got=hash_leaf(found).hex(), expected=hash_leaf(leaf).hex())
    signed = open_checkpoint(receipt.checkpoint, log=log, witnesses=witnesses, quorum=quorum)
    tree = signed.checkpoint
    verify_inclusion(hash_leaf(found), receipt.index, tree.size, receipt.path, tree.root)
    return ProvenLeaf(found, receipt.index, signed)


def _parse_lines(lines: list[str], checkpoint: bytes) -> Receipt:
    if lines.pop(0) != HEADER:
        raise ReceiptInvalid("not a receipt", expected=HEADER)
    leaf = None
    if lines and lines[0].startswith("extra "):
        leaf = decode_base64(lines.pop(0).removeprefix("extra "), where="extra")
        if len(leaf) > MAX_LEAF:
            raise ReceiptInvalid("leaf is too long", got=len(leaf), expected=f"at most {MAX_LEAF} bytes")
    found = _INDEX.fullmatch(lines.pop(0)) if lines else None
    if found is None or int(found[1]) >= MAX_SIZE:
        raise ReceiptInvalid("receipt has no index", expected="index and a decimal number")
    if len(lines) > MAX_PATH:
        raise ProofInvalid("inclusion proof has the wrong length", got=len(lines), expected=f"at most {MAX_PATH}")
    path = tuple(decode_base64(line, where=f"proof line {number}") for number, line in enumerate(lines))
    if any(len(node) != HASH_SIZE for node in path):
        raise ReceiptInvalid("a hash of the proof has the wrong length", expected=f"{HASH_SIZE} bytes")
    return Receipt(int(found[1]), path, checkpoint, leaf)
