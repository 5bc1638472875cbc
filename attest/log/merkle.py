"""The Merkle tree of a transparency log (RFC 6962 section 2.1), its proofs, and how they are verified (RFC 9162 2.1).

A leaf is hashed with the prefix 0x00 and an inner node with 0x01, so that no node can be passed off as a leaf. A proof
has exactly the length its tree demands: a node too many or too few is refused, as is an index outside the tree.
Verification needs no tree and no library but SHA-256; making a proof asks a ``Nodes`` for perfect subtrees.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from .errors import ProofInvalid

HASH_SIZE = 32
EMPTY_ROOT = sha256(b"").digest()  # RFC 6962: the hash of an empty tree
LEAF_PREFIX = b"\x00"
NODE_PREFIX = b"\x01"
MAX_SIZE = 2**63 - 1  # what databases and other implementations can hold; C2SP allows no more in cosignatures

Nodes = Callable[[int, int], bytes]
"""``nodes(level, i)`` is the hash of the perfect subtree over leaves ``i << level`` to ``(i + 1) << level``."""


def hash_leaf(body: bytes) -> bytes:
    """The leaf hash of an entry, 32 bytes."""
    return sha256(LEAF_PREFIX + body).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node, 32 bytes."""
    return sha256(NODE_PREFIX + left + right).digest()


class Accumulator:
    """The right edge of a growing tree: all that appending and the root need, one hash for each bit of its size."""

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self._peaks = list(peaks)  # perfect subtrees, the largest (leftmost) first
        if len(self._peaks) != size.bit_count():
            raise ProofInvalid("wrong number of subtrees", got=len(self._peaks), expected=size.bit_count())

    def append(self, leaf_hash: bytes) -> None:
        """Add one leaf by its hash; amortised two hashes."""
        node, size = leaf_hash, self.size
        while size & 1:
            node = hash_node(self._peaks.pop(), node)
            size >>= 1
        self._peaks.append(node)
        self.size += 1

    def root(self) -> bytes:
        """The root of the tree so far, 32 bytes."""
        if not self._peaks:
            return EMPTY_ROOT
        node = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            node = hash_node(peak, node)
        return node

    def copy(self) -> Accumulator:
        """An independent accumulator in the same state."""
        return Accumulator(self.size, self._peaks)


def root_of(leaf_hashes: Iterable[bytes]) -> bytes:
    """The root of the tree over ``leaf_hashes``."""
    tree = Accumulator()
    for leaf_hash in leaf_hashes:
        tree.append(leaf_hash)
    return tree.root()


def subtree(begin: int, end: int, nodes: Nodes) -> bytes:
    """The hash of leaves ``begin`` to ``end``, as RFC 6962's MTH(D[begin:end]), for ranges that occur in a tree."""
    width = end - begin
    if width & (width - 1) == 0:
        level = width.bit_length() - 1
        return nodes(level, begin >> level)
    middle = begin + _split(width)
    return hash_node(subtree(begin, middle, nodes), subtree(middle, end, nodes))


def tree_root(size: int, nodes: Nodes) -> bytes:
    """The root of the tree of the first ``size`` leaves."""
    return subtree(0, size, nodes) if size else EMPTY_ROOT


def prove_inclusion(index: int, size: int, nodes: Nodes) -> list[bytes]:
    """The audit path of leaf ``index`` in the tree of ``size`` leaves, from the leaf's sibling upwards.

    Raises:
        ProofInvalid: The tree has no such leaf.
    """
    _check_index(index, size)
    path = []
    begin, end = 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(subtree(middle, end, nodes))
            end = middle
        else:
            path.append(subtree(begin, middle, nodes))
            begin = middle
    return path[::-1]


def prove_consistency(old: int, new: int, nodes: Nodes) -> list[bytes]:
    """The proof that the tree of ``old`` leaves is a prefix of the tree of ``new`` leaves (RFC 6962 section 2.1.2).

    Raises:
        ProofInvalid: ``old`` is larger than ``new``, or either is no tree size.
    """
    _check_sizes(old, new)
    if old in (0, new):
        return []
    path = []
    begin, end, whole = 0, new, True
    while end != old:
        middle = begin + _split(end - begin)
        if old <= middle:
            path.append(subtree(middle, end, nodes))
            end = middle
        else:
            path.append(subtree(begin, middle, nodes))
            begin, whole = middle, False
    if not whole:
        path.append(subtree(begin, end, nodes))
    return path[::-1]


def root_from_inclusion(leaf_hash: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that ``path`` leads to from a leaf; equal to the tree's root if and only if the leaf is in it.

    Raises:
        ProofInvalid: The leaf lies outside the tree, or the path has not the length that this place in the tree has.
    """
    _check_index(index, size)
    _check_hashes([leaf_hash], "leaf hash")
    _check_hashes(path, "inclusion proof")
    inner, outer = _path_lengths(index, size)
    if len(path) != inner + outer:
        raise ProofInvalid("inclusion proof has the wrong length", got=len(path), expected=inner + outer)
    node = leaf_hash
    for level, sibling in enumerate(path[:inner]):
        node = hash_node(sibling, node) if index >> level & 1 else hash_node(node, sibling)
    for sibling in path[inner:]:
        node = hash_node(sibling, node)
    return node


def verify_inclusion(leaf_hash: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check that the leaf is number ``index`` of the tree with this ``size`` and ``root``.

    Raises:
        ProofInvalid: It is not, or the proof is malformed.
    """
    found = root_from_inclusion(leaf_hash, index, size, path)
    if not hmac.compare_digest(found, root):
        raise ProofInvalid("inclusion proof leads to another root", got=found.hex(), expected=root.hex())


def verify_consistency(old: int, new: int, path: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Check that the tree ``old``, ``old_root`` is a prefix of the tree ``new``, ``new_root`` (RFC 9162 2.1.4.2).

    Raises:
        ProofInvalid: It is not, or the proof is malformed.
    """
    _check_sizes(old, new)
    if old == new:
        _check_same(new, path, old_root, new_root)
        return
    if old == 0:
        raise ProofInvalid("nothing to prove: every tree begins with the empty one", got=old, expected="at least 1")
    _check_hashes([old_root, new_root], "root")
    _check_hashes(path, "consistency proof")
    found_old, found_new = _roots_from_consistency(old, new, path, old_root)
    if not hmac.compare_digest(found_old, old_root):
        raise ProofInvalid("consistency proof leads to another old root", got=found_old.hex(), expected=old_root.hex())
    if not hmac.compare_digest(found_new, new_root):
        raise ProofInvalid("consistency proof leads to another new root", got=found_new.hex(), expected=new_root.hex())


def _roots_from_consistency(old: int, new: int, path: Sequence[bytes], old_root: bytes) -> tuple[bytes, bytes]:
    shift = (old & -old).bit_length() - 1  # the perfect subtree at the right edge of the old tree
    inner, outer = _path_lengths(old - 1, new)
    inner -= shift
    whole = old == 1 << shift  # then the old tree is that subtree, and the proof does not repeat its root
    expected = inner + outer + (0 if whole else 1)
    if len(path) != expected:
        raise ProofInvalid("consistency proof has the wrong length", got=len(path), expected=expected)
    seed = old_root if whole else path[0]
    rest = path if whole else path[1:]
    place = (old - 1) >> shift
    was = now = seed
    for level, sibling in enumerate(rest[:inner]):
        if place >> level & 1:
            was, now = hash_node(sibling, was), hash_node(sibling, now)
        else:
            now = hash_node(now, sibling)
    for sibling in rest[inner:]:
        was, now = hash_node(sibling, was), hash_node(sibling, now)
    return was, now


def _check_same(size: int, path: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    if path:
        raise ProofInvalid("consistency proof has nodes where none can be", got=len(path), expected=0)
    if not hmac.compare_digest(old_root, new_root):
        raise ProofInvalid("one size, two roots", where=f"{size} leaves", got=old_root.hex(), expected=new_root.hex())
    if size == 0 and not hmac.compare_digest(old_root, EMPTY_ROOT):
        raise ProofInvalid("wrong root of the empty tree", got=old_root.hex(), expected=EMPTY_ROOT.hex())


def _path_lengths(index: int, size: int) -> tuple[int, int]:
    """Nodes of an audit path below and above the point where it joins the right edge of the tree."""
    inner = (index ^ (size - 1)).bit_length()
    return inner, (index >> inner).bit_count()


def _split(width: int) -> int:
    """The largest power of two smaller than ``width`` (at least 2)."""
    return 1 << ((width - 1).bit_length() - 1)


def _check_index(index: int, size: int) -> None:
    if not 0 <= size <= MAX_SIZE:
        raise ProofInvalid("not a tree size", got=size, expected=f"0 to {MAX_SIZE}")
    if not 0 <= index < size:
        raise ProofInvalid("index outside the tree", got=index, expected=f"0 to {size - 1}")


def _check_sizes(old: int, new: int) -> None:
    if not 0 <= old <= new <= MAX_SIZE:
        raise ProofInvalid("tree sizes out of order", got=f"{old}, {new}", expected=f"0 <= old <= new <= {MAX_SIZE}")


def _check_hashes(hashes: Sequence[bytes], what: str) -> None:
    for position, value in enumerate(hashes):
        if len(value) != HASH_SIZE:
            raise ProofInvalid(
                f"{what} {position} has the wrong length", got=f"{len(value)} bytes", expected=f"{HASH_SIZE} bytes"
            )
