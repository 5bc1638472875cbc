"""Quantised weights come out as the matrices their own libraries would compute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fingerprint.checkpoint import Checkpoint, open_checkpoint
from fingerprint.errors import MalformedCheckpoint

INPUTS, OUT, GROUP = 64, 40, 16
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def pack_columns(codes: torch.Tensor, bits: int = 4, order: tuple[int, ...] | None = None) -> torch.Tensor:
    """Codes (rows x columns) as int32 words along columns, first code in the lowest bits."""
    per_word = 32 // bits
    parts = codes.to(torch.int64).view(codes.shape[0], -1, per_word)
    words = torch.zeros(parts.shape[:2], dtype=torch.int64)
    for place, column in enumerate(order or range(per_word)):
        words |= parts[:, :, column] << (bits * place)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def pack_rows(codes: torch.Tensor, bits: int = 4) -> torch.Tensor:
    """Codes (rows x columns) as int32 words along rows."""
    return pack_columns(codes.T.contiguous(), bits).T.contiguous()


def check(checkpoint: Checkpoint, name: str, expected: torch.Tensor) -> None:
    """The whole tensor, and its blocks of every awkward size, are ``expected``."""
    assert torch.equal(checkpoint.tensor(name), expected)
    for rows in (1, 7, 128):
        assert torch.equal(torch.cat([block.clone() for block in checkpoint.blocks(name, rows)]), expected)
    assert checkpoint.raw(name) is None


def saved(folder: Path, content: dict[str, torch.Tensor], **config: object) -> Checkpoint:
    """The folder with ``content`` and a config, opened."""
    save_file(content, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return open_checkpoint(folder)


def draw(bits: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes (in x out), zeros and scales (groups x out)."""
    generator = torch.Generator().manual_seed(bits)
    codes = torch.randint(0, 2**bits, (INPUTS, OUT), generator=generator)
    zeros = torch.randint(1, 2**bits, (INPUTS // GROUP, OUT), generator=generator)
    return codes, zeros, (torch.rand(INPUTS // GROUP, OUT, generator=generator) + 0.1).half()


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("version", ["gptq", "gptq_v2"])
@pytest.mark.parametrize("ordered", [True, False])
def test_gptq(bits: int, version: str, ordered: bool, tmp_path: Path) -> None:
    out = 48 if bits == 2 else OUT
    codes, zeros, scales = (x.repeat(1, 2)[:, :out].contiguous() for x in draw(bits))
    group = torch.arange(INPUTS) // GROUP
    group = group if ordered else group[torch.randperm(INPUTS)]
    content = {
        "l.qweight": pack_rows(codes, bits),
        "l.qzeros": pack_columns(zeros - int(version == "gptq"), bits),
        "l.scales": scales,
        "l.bias": torch.ones(out),
    }
    if not ordered:
        content["l.g_idx"] = group.int()
    with saved(tmp_path, content, quantization_config={"checkpoint_format": version}) as checkpoint:
        assert set(checkpoint.tensors) == {"l.weight", "l.bias"}
        assert checkpoint.format == "gptq"
        assert checkpoint.notes == (f"dequantised:gptq-int{bits}",)
        check(checkpoint, "l.weight", ((codes - zeros[group]).float() * scales.float()[group]).T)


def test_awq(tmp_path: Path) -> None:
    codes, zeros, scales = draw(4)
    content = {
        "l.qweight": pack_columns(codes, order=AWQ_ORDER),
        "l.qzeros": pack_columns(zeros, order=AWQ_ORDER),
        "l.scales": scales,
    }
    with saved(tmp_path, content) as checkpoint:
        assert checkpoint.format == "awq"
        assert checkpoint.notes == ("dequantised:awq-int4",)
        group = torch.arange(INPUTS) // GROUP
        check(checkpoint, "l.weight", ((codes - zeros[group]).float() * scales.float()[group]).T)


def test_compressed_tensors(tmp_path: Path) -> None:
    codes = torch.randint(0, 16, (OUT, INPUTS))
    scales = torch.rand(OUT, INPUTS // GROUP).bfloat16()
    content = {
        "l.weight_packed": pack_columns(codes),
        "l.weight_scale": scales,
        "l.weight_shape": torch.tensor([OUT, INPUTS]),
    }
    with saved(tmp_path, content) as checkpoint:
        check(checkpoint, "l.weight", (codes - 8).float() * scales.float().repeat_interleave(GROUP, dim=1))


@pytest.mark.parametrize(
    ("suffix", "shape"),
    [("_scale_inv", (3, 2)), ("_scale", (300, 1)), ("_scale", (300,)), ("_scale", (1,)), ("_scale", ())],
)
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.int8])
def test_eight_bit_with_scales(suffix: str, shape: tuple[int, ...], dtype: torch.dtype, tmp_path: Path) -> None:
    codes = (torch.randn(300, 200) * 20).to(dtype)
    scale = torch.rand(shape)
    with saved(tmp_path, {"w.weight": codes, f"w.weight{suffix}": scale}) as checkpoint:
        spread = scale.view(*shape, *(1,) * (2 - len(shape))) if scale.numel() > 1 else scale.view(1, 1)
        if shape == (3, 2):
            spread = scale.repeat_interleave(128, 0)[:300].repeat_interleave(128, 1)[:, :200]
        assert set(checkpoint.tensors) == {"w.weight"}
        check(checkpoint, "w.weight", codes.float() * spread)


def test_fp8_without_scales_stays_fp8(tmp_path: Path) -> None:
    codes = torch.randn(8, 8).to(torch.float8_e4m3fn)
    with saved(tmp_path, {"w.weight": codes}) as checkpoint:
        assert checkpoint.tensors["w.weight"].dtype == torch.float8_e4m3fn
        assert checkpoint.notes == ()


@pytest.mark.parametrize("nested", [False, True])
def test_bitsandbytes_nf4(nested: bool, tmp_path: Path) -> None:
    out, inputs, block, outer = 24, 32, 64, 4
    codes = torch.randint(0, 16, (out * inputs,))
    table, maxima = torch.linspace(-1, 1, 16), torch.rand(out * inputs // block)
    state = {"quant_type": "nf4", "blocksize": block, "shape": [out, inputs], "dtype": "bfloat16"}
    content = {
        "l.weight": (codes[::2] << 4 | codes[1::2]).to(torch.uint8).view(-1, 1),
        "l.weight.quant_map": table,
        "l.weight.absmax": maxima,
    }
    if nested:
        bytes_, lookup = torch.randint(0, 256, maxima.shape), torch.linspace(-1, 1, 256)
        outer_maxima = torch.rand(-(-len(maxima) // outer))
        state |= {"nested_blocksize": outer, "nested_offset": 0.25}
        content["l.weight.absmax"] = bytes_.to(torch.uint8)
        content["l.weight.nested_absmax"], content["l.weight.nested_quant_map"] = outer_maxima, lookup
        maxima = lookup[bytes_] * outer_maxima.repeat_interleave(outer)[: len(maxima)] + 0.25
    text = json.dumps(state).encode()
    content["l.weight.quant_state.bitsandbytes__nf4"] = torch.tensor(list(text), dtype=torch.uint8)
    with saved(tmp_path, content) as checkpoint:
        assert set(checkpoint.tensors) == {"l.weight"}
        check(checkpoint, "l.weight", (table[codes] * maxima.repeat_interleave(block)).view(out, inputs))


def test_bitsandbytes_int8(tmp_path: Path) -> None:
    codes, maxima = torch.randint(-127, 128, (6, 8)).to(torch.int8), torch.rand(6)
    content = {"l.weight": codes, "l.SCB": maxima, "l.weight_format": torch.tensor(0, dtype=torch.uint8)}
    with saved(tmp_path, content) as checkpoint:
        assert set(checkpoint.tensors) == {"l.weight"}
        check(checkpoint, "l.weight", codes.float() * (maxima / 127).unsqueeze(1))


def test_group_index_out_of_range_is_refused_when_read(tmp_path: Path) -> None:
    codes, zeros, scales = draw(4)
    content = {
        "l.qweight": pack_rows(codes),
        "l.qzeros": pack_columns(zeros),
        "l.scales": scales,
        "l.g_idx": torch.full((INPUTS,), 99, dtype=torch.int32),
    }
    with saved(tmp_path, content) as checkpoint, pytest.raises(MalformedCheckpoint, match="g_idx"):
        checkpoint.tensor("l.weight")
