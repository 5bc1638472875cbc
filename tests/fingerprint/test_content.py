"""Digests: equal exactly when values are, in the sense each of them promises."""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fingerprint import content


def test_tensor_digest_is_what_the_docstring_says() -> None:
    tensor = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float32)
    domain = b"model-forensics/tensor/v1"
    expected = hashlib.sha256(
        struct.pack("<Q", len(domain))
        + domain
        + struct.pack("<Q", 3)
        + b"F32"
        + struct.pack("<3Q", 2, 1, 3)
        + np.array([1.0, -2.0, 0.5], dtype="<f4").tobytes()
    )
    assert content.tensor_digest(tensor) == expected.hexdigest()


def test_dtype_and_shape_are_part_of_a_tensor_digest() -> None:
    zeros = torch.zeros(2, 3)
    others = [zeros.reshape(3, 2), zeros.reshape(6), zeros.to(torch.int32)]
    assert len({content.tensor_digest(t) for t in [zeros, *others]}) == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_digest_survives_a_cast_to_bfloat16(dtype: torch.dtype) -> None:
    tensor = torch.randn(7, 5, generator=torch.Generator().manual_seed(0), dtype=dtype)
    rounded = tensor.to(torch.bfloat16)
    assert content.value_digest(tensor) == content.value_digest(rounded) == content.tensor_digest(rounded)
    assert content.tensor_digest(tensor) != content.tensor_digest(rounded)


@given(st.lists(st.integers(0, 9), min_size=0, max_size=4), st.integers(1, 5))
def test_blocks_do_not_change_a_digest(shape: list[int], rows: int) -> None:
    tensor = torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)
    hasher = content.TensorHasher(tensor.dtype, shape)
    if shape:
        for start in range(0, shape[0], rows):
            hasher.update(tensor[start : start + rows])
    else:
        hasher.update(tensor)
    assert hasher.digest == content.tensor_digest(tensor)
    assert hasher.value_digest == content.value_digest(tensor)


def test_multiset_digest_survives_axis_permutation_only() -> None:
    codes = np.arange(24, dtype=np.uint16).reshape(2, 3, 4)
    same = content.multiset_digest(codes, codes.shape)
    moved = codes.transpose(2, 0, 1)
    assert content.multiset_digest(moved, moved.shape) == same
    assert content.multiset_digest(codes, (2, 2, 6)) != same
    assert content.multiset_digest(codes + 1, codes.shape) != same
    assert content.wants_multiset((2, 3, 4))
    assert not content.wants_multiset((4096, 4096))
    assert not content.wants_multiset((0, 4))


def _leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def test_merkle_root_is_rfc_6962() -> None:
    a, b, c = b"a", b"bb", b"ccc"
    assert content.merkle_root([]) == hashlib.sha256(b"").digest()
    assert content.merkle_root([a]) == _leaf(a)
    assert content.merkle_root([a, b, c]) == _node(_node(_leaf(a), _leaf(b)), _leaf(c))


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.binary(min_size=32, max_size=32), max_size=9))
def test_roots_ignore_order_and_the_nameless_one_names(named: dict[str, bytes]) -> None:
    pairs = [(name, digest.hex()) for name, digest in named.items()]
    assert content.content_root(pairs) == content.content_root(pairs[::-1])
    renamed = [(f"{i}-{name}", digest) for i, (name, digest) in enumerate(pairs)]
    assert content.nameless_root(d for _, d in pairs) == content.nameless_root(d for _, d in renamed)
    if pairs:
        assert content.content_root(pairs) != content.content_root(renamed)
