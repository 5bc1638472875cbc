"""8-bit weights with a scale beside them: fp8 and int8, per tensor, row or block of 128 x 128.

``weight_scale`` and DeepSeek's ``weight_scale_inv`` are both multiplied (DeepSeek-V3, inference/kernel.py,
weight_dequant); blocks are 128 x 128 unless the config says otherwise and the shapes agree.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fingerprint.checkpoint.companions import Companions, Packed, unfit
from fingerprint.checkpoint.interface import TensorInfo
from fingerprint.checkpoint.scales import block_steps, spread

_CODES = {
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
    torch.float8_e4m3fnuz: "fp8",
    torch.float8_e5m2fnuz: "fp8",
    torch.int8: "int8",
}
_SUFFIXES = ("_scale_inv", "_scale")
_BLOCK = 128


def find(companions: Companions) -> Iterator[Packed]:
    """Every 8-bit tensor with a scale companion."""
    for name, info in companions.names.items():
        if info.dtype not in _CODES or not info.numel:
            continue
        scale = next((name + suffix for suffix in _SUFFIXES if name + suffix in companions.names), None)
        if scale is not None:
            yield _scaled(companions, info, companions.names[scale])


def _scaled(companions: Companions, codes: TensorInfo, scale: TensorInfo) -> Packed:
    have = _aligned(scale.shape, codes.shape)
    steps = block_steps(have, codes.shape, _blocks(companions, len(codes.shape)))
    if steps is None or not scale.dtype.is_floating_point or scale.numel * 4 > max(4, codes.numel):
        raise unfit(scale.name, f"{scale.stored} {scale.shape}", f"a scale for {codes.shape}")

    def window(lo: int, hi: int) -> torch.Tensor:
        parameter = companions.view(scale.name).reshape(have)
        stored = companions.view(codes.name)[lo:hi] if codes.shape else companions.view(codes.name)
        return stored.to(torch.float32) * spread(parameter, steps, codes.shape, lo=lo, hi=hi)

    return companions.packed(codes.name, codes.shape, window, (codes.name, scale.name), _CODES[codes.dtype])


def _aligned(have: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The scale's shape at the tensor's rank: a single value anywhere, a vector along rows."""
    if all(size == 1 for size in have):
        return (1,) * len(shape)
    return (*have, *(1,) * (len(shape) - len(have)))


def _blocks(companions: Companions, rank: int) -> tuple[int, ...]:
    """Block per axis; the config's word is taken only as a size to try against the shapes."""
    declared = companions.config.get("weight_block_size")
    if type(declared) is list and all(type(size) is int and size > 0 for size in declared):
        return (1,) * (rank - len(declared)) + tuple(declared[-rank:] if rank else ())
    return (_BLOCK,) * rank
