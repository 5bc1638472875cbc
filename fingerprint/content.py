"""Digests that say *same values*, whatever the shards, the names, or the container.

A tensor digest is SHA-256 over ``lp(domain) | lp(dtype) | u64 rank | u64 dims | little-endian bytes`` (``lp`` is a u64
little-endian length prefix). The value digest is the same over the values rounded to bfloat16, nearest even, so that
a float32 to bfloat16 cast keeps it; for bfloat16 tensors the two are one hash. The content root is the RFC 6962 tree
over ``lp(name) | digest`` sorted by name and survives re-sharding; the nameless root is the tree over the sorted
digests alone and survives renames. Digests prove identity, never derivation: one ulp of noise evades them.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence

import numpy as np
import torch

TENSOR_DOMAIN = b"model-forensics/tensor/v1"
MULTISET_DOMAIN = b"model-forensics/value-multiset/v1"
MULTISET_MAX_ELEMENTS = 1 << 20
"""Matrices above this carry no multiset digest: counting would cost as much as hashing."""
MULTISET_MAX_ELEMENTS_ANY_RANK = 1 << 22

DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.uint16: "U16",
    torch.uint32: "U32",
    torch.uint64: "U64",
    torch.bool: "BOOL",
    torch.complex64: "C64",
}


def dtype_name(dtype: torch.dtype) -> str:
    """The safetensors spelling of a dtype (torch's own where safetensors has none)."""
    return DTYPE_NAMES.get(dtype, str(dtype).removeprefix("torch."))


def length_prefixed(data: bytes) -> bytes:
    """``data`` behind its u64 little-endian length, so that concatenations are unambiguous."""
    return struct.pack("<Q", len(data)) + data


def little_endian_bytes(block: torch.Tensor) -> memoryview:
    """The bytes of a C-contiguous CPU tensor, without a copy."""
    flat = block.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


class TensorHasher:
    """Tensor digest and value digest in one stream of blocks.

    Only tensors that are floating point and not already bfloat16 need a second hash for their values; integer
    tensors have no rounded form, their value digest is the tensor digest. ``values=False`` leaves that hash out.
    """

    def __init__(self, dtype: torch.dtype, shape: Sequence[int], *, values: bool = True) -> None:
        self._exact = hashlib.sha256(tensor_header(dtype_name(dtype), shape))
        rounds = values and dtype.is_floating_point and dtype != torch.bfloat16
        self._value = hashlib.sha256(tensor_header("BF16", shape)) if rounds else None

    def update(self, block: torch.Tensor) -> None:
        """Take the next block, in C order."""
        self._exact.update(little_endian_bytes(block))
        if self._value is not None:
            self._value.update(little_endian_bytes(block.to(torch.bfloat16)))

    @property
    def digest(self) -> str:
        """Hex SHA-256 of the tensor as stored."""
        return self._exact.hexdigest()

    @property
    def value_digest(self) -> str:
        """Hex SHA-256 of the values as bfloat16."""
        return self._exact.hexdigest() if self._value is None else self._value.hexdigest()


def tensor_digest(tensor: torch.Tensor) -> str:
    """Digest of a tensor that is already in memory."""
    hasher = TensorHasher(tensor.dtype, tuple(tensor.shape))
    hasher.update(tensor)
    return hasher.digest


def value_digest(tensor: torch.Tensor) -> str:
    """Value digest of a tensor that is already in memory."""
    hasher = TensorHasher(tensor.dtype, tuple(tensor.shape))
    hasher.update(tensor)
    return hasher.value_digest


def wants_multiset(shape: Sequence[int]) -> bool:
    """Whether a tensor of this shape carries a multiset digest (finds transposition and axis permutation)."""
    numel = int(np.prod(shape, dtype=np.int64)) if len(shape) else 1
    if numel == 0:
        return False
    limit = MULTISET_MAX_ELEMENTS_ANY_RANK if len(shape) >= 3 else MULTISET_MAX_ELEMENTS
    return numel <= limit


def multiset_digest(codes: np.ndarray, shape: Sequence[int]) -> str:
    """Digest of how often each bfloat16 code occurs, and of the sorted shape: equal under any order of the axes.

    Args:
        codes: uint16 array of bfloat16 bit patterns, any shape.
        shape: Shape of the tensor.
    """
    counts = np.bincount(codes.reshape(-1), minlength=1 << 16)
    present = np.flatnonzero(counts)
    dims = sorted(n for n in shape if n != 1)
    head = length_prefixed(MULTISET_DOMAIN) + struct.pack(f"<Q{len(dims)}Q", len(dims), *dims)
    pairs = np.stack([present, counts[present]], axis=1).astype("<u8")
    return hashlib.sha256(head + pairs.tobytes()).hexdigest()


def content_root(named: Iterable[tuple[str, str]]) -> str:
    """``sha256:`` root over (name, hex digest) pairs, sorted by name."""
    leaves = [length_prefixed(name.encode()) + bytes.fromhex(digest) for name, digest in sorted(named)]
    return "sha256:" + merkle_root(leaves).hex()


def nameless_root(digests: Iterable[str]) -> str:
    """``sha256:`` root over the sorted digests alone."""
    return "sha256:" + merkle_root([bytes.fromhex(d) for d in sorted(digests)]).hex()


def merkle_root(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962 section 2.1 tree hash: leaves behind 0x00, nodes behind 0x01, split at the largest power of two."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1 << ((len(leaves) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + merkle_root(leaves[:split]) + merkle_root(leaves[split:])).digest()


def tensor_header(dtype: str, shape: Sequence[int]) -> bytes:
    """What a tensor's digest starts with: domain, dtype, rank and dimensions."""
    dims = struct.pack(f"<Q{len(shape)}Q", len(shape), *shape)
    return length_prefixed(TENSOR_DOMAIN) + length_prefixed(dtype.encode()) + dims
