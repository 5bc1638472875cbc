"""Integers packed into 32-bit words: GPTQ, AWQ and compressed-tensors.

All three store codes, one scale per group of inputs and output, and mostly a zero point; they differ in which axis is
packed, in nibble order and in what the zero means:

- GPTQ: ``qweight`` (in*bits/32 x out), packed along inputs; ``qzeros`` (groups x out*bits/32) hold zero - 1; ``g_idx``
  gives the group of each input (arXiv 2210.17323; AutoGPTQ qlinear_cuda.py; format ``gptq_v2`` stores the zero itself).
- AWQ: ``qweight`` (in x out/8), packed along outputs in the order 0 2 4 6 1 3 5 7 (arXiv 2306.00978; AutoAWQ gemm.py).
- compressed-tensors: ``weight_packed`` (out x in*bits/32), codes offset by 2**(bits-1), ``weight_shape`` beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fingerprint.checkpoint.companions import Companions, Packed, unfit
from fingerprint.errors import UnsupportedCheckpoint

_WORD = 32
_WORDS = (torch.int32, torch.uint32)
_REALS = (torch.float16, torch.bfloat16, torch.float32)
_BITS = (2, 4, 8)
_AWQ_SHIFTS = (0, 16, 4, 20, 8, 24, 12, 28)
"""Shift of column j of a word: nibble order 0 2 4 6 1 3 5 7, inverted, times four bits."""


def find(companions: Companions) -> Iterator[Packed]:
    """Every packed weight of the three formats."""
    for stem in companions.stems(".qweight"):
        yield _groups(companions, stem)
    for stem in companions.stems(".weight_packed"):
        yield _compressed(companions, stem)


def _groups(companions: Companions, stem: str) -> Packed:
    """GPTQ or AWQ, told apart by which axis of ``qweight`` is the scales'."""
    codes = companions.need(f"{stem}.qweight", rank=2, dtypes=_WORDS)
    scales = companions.need(f"{stem}.scales", rank=2, dtypes=_REALS)
    zeros = companions.need(f"{stem}.qzeros", rank=2, dtypes=_WORDS)
    groups, out = scales.shape
    bits = zeros.shape[1] * _WORD // out
    if bits not in _BITS or zeros.shape != (groups, out * bits // _WORD):
        raise unfit(f"{stem}.qzeros", zeros.shape, f"({groups}, {out} x 2, 4 or 8 bits / 32)")
    if codes.shape[1] == out:
        return _gptq(companions, stem, bits, codes.shape[0] * _WORD // bits, out)
    if codes.shape[1] == out * bits // _WORD and bits == 4 and codes.shape[0] % groups == 0:
        return _awq(companions, stem, codes.shape[0], out)
    raise unfit(f"{stem}.qweight", codes.shape, f"GPTQ (in x {bits}/32, {out}) or AWQ (in, {out}/8)")


def _gptq(companions: Companions, stem: str, bits: int, inputs: int, out: int) -> Packed:
    names = [f"{stem}.qweight", f"{stem}.qzeros", f"{stem}.scales"]
    groups = companions.names[names[2]].shape[0]
    offset = 0 if companions.config.get("checkpoint_format") == "gptq_v2" else 1
    if f"{stem}.g_idx" in companions.names:
        names.append(f"{stem}.g_idx")
        if companions.need(names[3], rank=1, dtypes=(torch.int32, torch.int64)).shape != (inputs,):
            raise unfit(names[3], companions.names[names[3]].shape, f"({inputs},)")
    elif inputs % groups:
        raise unfit(names[2], f"{groups} groups", f"a divisor of {inputs} inputs")

    def window(lo: int, hi: int) -> torch.Tensor:
        group = _group_of_input(companions, stem, inputs, groups)
        words = _as_int(companions.view(names[0])[:, lo:hi])
        codes = _unpack(words.unsqueeze(1), _shifts(bits).view(1, -1, 1), bits).flatten(0, 1)
        per_word = _WORD // bits
        first = lo // per_word
        zeros = _as_int(companions.view(names[1])[:, first : -(-hi // per_word)])
        zeros = _unpack(zeros.unsqueeze(2), _shifts(bits), bits).flatten(1) + offset
        zeros = zeros[:, lo - first * per_word :][:, : hi - lo]
        scales = companions.view(names[2])[:, lo:hi].to(torch.float32)
        return ((codes - zeros[group]) * scales[group]).T

    return companions.packed(f"{stem}.weight", (out, inputs), window, tuple(names), f"gptq-int{bits}")


def _group_of_input(companions: Companions, stem: str, inputs: int, groups: int) -> torch.Tensor:
    """Group of each input; ``g_idx`` is the competitor's, so it is checked before it indexes anything."""
    name = f"{stem}.g_idx"
    if name not in companions.names:
        return torch.arange(inputs) // (inputs // groups)
    group = companions.view(name).to(torch.int64)
    if int(group.min()) < 0 or int(group.max()) >= groups:
        raise unfit(name, f"{int(group.min())} to {int(group.max())}", f"0 to {groups - 1}")
    return group


def _awq(companions: Companions, stem: str, inputs: int, out: int) -> Packed:
    names = (f"{stem}.qweight", f"{stem}.qzeros", f"{stem}.scales")
    size = inputs // companions.names[names[2]].shape[0]
    shifts = torch.tensor(_AWQ_SHIFTS, dtype=torch.int32)

    def columns(name: str, lo: int, hi: int) -> torch.Tensor:
        first = lo // 8
        words = _as_int(companions.view(name)[:, first : -(-hi // 8)])
        return _unpack(words.unsqueeze(2), shifts, 4).flatten(1)[:, lo - first * 8 :][:, : hi - lo]

    def window(lo: int, hi: int) -> torch.Tensor:
        codes = columns(names[0], lo, hi).view(-1, size, hi - lo)
        zeros = columns(names[1], lo, hi).unsqueeze(1)
        scales = companions.view(names[2])[:, lo:hi].to(torch.float32).unsqueeze(1)
        return ((codes - zeros) * scales).flatten(0, 1).T

    return companions.packed(f"{stem}.weight", (out, inputs), window, names, "awq-int4")


def _compressed(companions: Companions, stem: str) -> Packed:
    names = [f"{stem}.weight_packed", f"{stem}.weight_scale", f"{stem}.weight_shape"]
    for extra in ("weight_zero_point", "weight_g_idx"):
        if f"{stem}.{extra}" in companions.names:
            raise UnsupportedCheckpoint(
                "asymmetric or reordered compressed-tensors",
                where=f"{stem}.{extra}"[:200],
                expected="symmetric groups",
                remedy="Give the original.",
            )
    codes = companions.need(names[0], rank=2, dtypes=_WORDS)
    scales = companions.need(names[1], rank=2, dtypes=_REALS)
    companions.need(names[2], rank=1, dtypes=(torch.int32, torch.int64))
    out, inputs = codes.shape[0], [int(v) for v in companions.view(names[2])][-1]
    bits = next((b for b in _BITS if inputs > 0 and -(-inputs * b // _WORD) == codes.shape[1]), 0)
    groups = scales.shape[1]
    if not bits or scales.shape[0] != out or inputs % groups:
        raise unfit(names[0], f"{codes.shape}, scales {scales.shape}", f"{out} x {inputs} of 2, 4 or 8 bits")

    def window(lo: int, hi: int) -> torch.Tensor:
        words = _as_int(companions.view(names[0])[lo:hi])
        values = _unpack(words.unsqueeze(2), _shifts(bits), bits).flatten(1)[:, :inputs] - (1 << (bits - 1))
        scale = companions.view(names[1])[lo:hi].to(torch.float32).repeat_interleave(inputs // groups, dim=1)
        return values * scale

    return companions.packed(f"{stem}.weight", (out, inputs), window, tuple(names), f"compressed-int{bits}")


def _shifts(bits: int) -> torch.Tensor:
    return torch.arange(0, _WORD, bits, dtype=torch.int32)


def _unpack(words: torch.Tensor, shifts: torch.Tensor, bits: int) -> torch.Tensor:
    return (words >> shifts) & ((1 << bits) - 1)


def _as_int(words: torch.Tensor) -> torch.Tensor:
    return words.view(torch.int32)
