"""bitsandbytes: 4-bit codes looked up in a table (nf4, fp4), and int8 with a maximum per row.

4-bit: two codes a byte, high nibble first, over the flattened matrix; ``absmax`` scales blocks of 64 elements and may
itself be 8-bit, looked up in ``nested_quant_map`` and scaled by ``nested_absmax`` (arXiv 2305.14314; bitsandbytes
functional.py, QuantState.as_dict). 8-bit: ``weight * SCB / 127`` (arXiv 2208.07339).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fingerprint.checkpoint.companions import Companions, Packed, unfit
from fingerprint.checkpoint.limits import DEFAULT_LIMITS
from fingerprint.checkpoint.strict_json import parse_object

_STATE = ".quant_state.bitsandbytes__"
_STATE_BYTES = 4096
_INT8_RANGE = 127.0
_BYTE = (torch.uint8,)


def find(companions: Companions) -> Iterator[Packed]:
    """Every nf4, fp4 and int8 weight."""
    for kind in ("nf4", "fp4"):
        for stem in companions.stems(f"{_STATE}{kind}"):
            yield _four_bit(companions, stem, kind)
    for stem in companions.stems(".SCB"):
        yield _eight_bit(companions, stem)


@dataclass(frozen=True)
class _State:
    """The JSON that bitsandbytes stores as a tensor of bytes, checked."""

    shape: tuple[int, int]
    block: int
    nested_block: int
    nested_offset: float


def _state(companions: Companions, name: str) -> _State:
    info = companions.need(name, rank=1, dtypes=_BYTE)
    if info.numel > _STATE_BYTES:
        raise unfit(name, f"{info.numel} bytes", f"<= {_STATE_BYTES}")
    text = bytes(companions.view(name).tolist())
    content: dict[str, Any] = parse_object(text, where=name, limits=DEFAULT_LIMITS)
    shape, block = content.get("shape"), content.get("blocksize")
    nested, offset = content.get("nested_blocksize", 256), content.get("nested_offset", 0.0)
    sizes = [*shape, block, nested] if type(shape) is list and len(shape) == 2 else [0]
    if not all(type(size) is int and 0 < size < 1 << 40 for size in sizes) or type(offset) not in (int, float):
        raise unfit(name, content, "shape of rank 2, blocksize, nested_blocksize and nested_offset")
    return _State((sizes[0], sizes[1]), sizes[2], sizes[3], float(offset))


def _four_bit(companions: Companions, stem: str, kind: str) -> Packed:
    """``stem`` is the weight's own name: ``x.weight`` with ``x.weight.absmax`` and so on."""
    state = _state(companions, f"{stem}{_STATE}{kind}")
    out, inputs = state.shape
    numel = out * inputs
    codes = companions.need(stem, rank=2, dtypes=_BYTE)
    table = companions.need(f"{stem}.quant_map", rank=1, dtypes=(torch.float32,))
    blocks = -(-numel // state.block)
    maxima = companions.need(f"{stem}.absmax", rank=1, dtypes=(torch.uint8, torch.float32))
    if codes.numel * 2 != numel + numel % 2 or table.numel != 16 or maxima.numel != blocks:
        raise unfit(stem, f"{codes.numel} bytes, {maxima.numel} maxima", f"{numel} codes in {blocks} blocks")
    parts = [stem, f"{stem}.quant_map", f"{stem}.absmax", f"{stem}{_STATE}{kind}"]
    if maxima.dtype == torch.uint8:
        parts += [f"{stem}.nested_absmax", f"{stem}.nested_quant_map"]
        nested = companions.need(parts[4], rank=1, dtypes=(torch.float32,))
        lookup = companions.need(parts[5], rank=1, dtypes=(torch.float32,))
        if nested.numel != -(-blocks // state.nested_block) or lookup.numel != 256:
            raise unfit(parts[4], nested.numel, -(-blocks // state.nested_block))

    def window(lo: int, hi: int) -> torch.Tensor:
        first, last = lo * inputs, hi * inputs
        pairs = companions.base.flat(stem)[first // 2 : (last + 1) // 2]
        nibbles = torch.stack((pairs >> 4, pairs & 15), dim=-1).flatten()[first % 2 :][: last - first]
        values = companions.view(parts[1])[nibbles.to(torch.int64)]
        begin, end = first // state.block, -(-last // state.block)
        scale = _maxima(companions, parts, state, begin, end).repeat_interleave(state.block)
        return (values * scale[first - begin * state.block :][: last - first]).view(hi - lo, inputs)

    return companions.packed(stem, state.shape, window, tuple(parts), f"bitsandbytes-{kind}")


def _maxima(companions: Companions, parts: list[str], state: _State, begin: int, end: int) -> torch.Tensor:
    """Absolute maxima of blocks [begin, end), themselves dequantised where nested."""
    stored = companions.view(parts[2])[begin:end]
    if stored.dtype != torch.uint8:
        return stored
    index = torch.arange(begin, end) // state.nested_block
    lookup = companions.view(parts[5])[stored.to(torch.int64)]
    return lookup * companions.view(parts[4])[index] + state.nested_offset


def _eight_bit(companions: Companions, stem: str) -> Packed:
    codes = companions.need(f"{stem}.weight", rank=2, dtypes=(torch.int8,))
    maxima = companions.need(f"{stem}.SCB", rank=1, dtypes=(torch.float32, torch.float16))
    if maxima.shape != codes.shape[:1]:
        raise unfit(maxima.name, maxima.shape, codes.shape[:1])
    parts = [codes.name, maxima.name]
    parts += [f"{stem}.weight_format"] if f"{stem}.weight_format" in companions.names else []

    def window(lo: int, hi: int) -> torch.Tensor:
        scale = companions.view(maxima.name)[lo:hi].to(torch.float32) / _INT8_RANGE
        return companions.view(codes.name)[lo:hi].to(torch.float32) * scale.unsqueeze(1)

    return companions.packed(codes.name, codes.shape, window, tuple(parts), "bitsandbytes-int8")
