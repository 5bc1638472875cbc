"""GGUF gives back the tensors it was converted from."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.checkpoint import open_checkpoint
from fingerprint.checkpoint.gguf_names import rename
from fingerprint.errors import CheckpointError, UnsupportedCheckpoint

D, HEADS, KV = 64, 4, 2
UNREAD = ("Q8_1", "Q8_K", "Q1_0")  # of activations, or newer than the package's dequantiser


def write(path: Path, architecture: str, content: dict[str, np.ndarray], **counts: int) -> Path:
    """A GGUF file by the reference writer."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_embedding_length(D)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_token_list(["a", "b", "<c>"])
    if "experts" in counts:
        writer.add_expert_count(counts["experts"])
    for name, x in content.items():
        writer.add_tensor(name, x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def normal(*shape: int) -> np.ndarray:
    """Random float32."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def permuted(x: np.ndarray, heads: int) -> np.ndarray:
    """What convert_hf_to_gguf.py does to query and key rows of llama."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def same(path: Path, expected: dict[str, np.ndarray]) -> None:
    """Every expected tensor, whole and in blocks of seven rows."""
    with open_checkpoint(path) as checkpoint:
        assert set(checkpoint.tensors) == set(expected)
        for name, x in expected.items():
            assert checkpoint.tensors[name].shape == x.shape, name
            assert np.array_equal(checkpoint.tensor(name).numpy(), x), name
            joined = torch.cat([block.clone() for block in checkpoint.blocks(name, 7)])
            assert np.array_equal(joined.numpy(), x), name


def test_llama_rows_names_config_and_tokens(tmp_path: Path) -> None:
    q, k, bias, norm, embed = normal(D, D), normal(D // 2, D), normal(D), normal(D), normal(3, D).astype(np.float16)
    stored = {
        "token_embd.weight": embed,
        "blk.0.attn_q.weight": permuted(q, HEADS),
        "blk.0.attn_q.bias": permuted(bias, HEADS),
        "blk.0.attn_k.weight": permuted(k, KV),
        "output_norm.weight": norm,
    }
    path = write(tmp_path / "m.gguf", "llama", stored)
    expected = {
        "model.embed_tokens.weight": embed,
        "model.layers.0.self_attn.q_proj.weight": q,
        "model.layers.0.self_attn.q_proj.bias": bias,
        "model.layers.0.self_attn.k_proj.weight": k,
        "model.norm.weight": norm,
    }
    same(path, expected)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.format == "gguf"
        assert checkpoint.notes == ("unpermuted:rope",)
        assert checkpoint.config["num_key_value_heads"] == KV
        assert checkpoint.token_strings() == ("a", "b", "<c>")
        assert bytes(checkpoint.raw("model.embed_tokens.weight") or b"") == embed.tobytes()
        assert checkpoint.raw("model.layers.0.self_attn.q_proj.weight") is None


def test_other_families_keep_their_rows(tmp_path: Path) -> None:
    q = normal(D, D)
    path = write(tmp_path / "m.gguf", "qwen2", {"blk.0.attn_q.weight": q})
    same(path, {"model.layers.0.self_attn.q_proj.weight": q})


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q5_1, Kind.Q8_0, Kind.BF16, Kind.TQ2_0])
def test_quantised_rows_are_what_the_reference_dequantises(kind: Kind, tmp_path: Path) -> None:
    rows = normal(24, 256)
    packed = gguf.quants.quantize(rows, kind)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "qwen2")
    writer.add_tensor("blk.0.ffn_up.weight", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    expected = gguf.quants.dequantize(packed, kind)
    with open_checkpoint(tmp_path / "m.gguf") as checkpoint:
        name = "model.layers.0.mlp.up_proj.weight"
        assert np.array_equal(checkpoint.tensor(name).float().numpy(), expected)
        assert np.array_equal(torch.cat([b.float() for b in checkpoint.blocks(name, 5)]).numpy(), expected)
        assert checkpoint.notes == (() if kind == Kind.BF16 else (f"dequantised:{kind.name.lower()}",))


def test_every_quantised_type_survives_hostile_bytes(tmp_path: Path) -> None:
    """Scales may be NaN or infinite; numpy must neither warn nor stop."""
    rng = np.random.default_rng(1)
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        if block == 1 or kind.name in UNREAD:
            continue
        writer = gguf.GGUFWriter(tmp_path / f"{kind.name}.gguf", "qwen2")
        data = rng.integers(0, 256, (3, size * 256 // block), dtype=np.uint8)
        writer.add_tensor("x.weight", data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with open_checkpoint(tmp_path / f"{kind.name}.gguf") as checkpoint:
            assert checkpoint.tensor("x.weight").shape == (3, 256)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind.name in UNREAD])
def test_types_that_cannot_be_dequantised_are_refused_by_name(kind: Kind, tmp_path: Path) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.zeros((1, size * 256 // block), dtype=np.uint8)
    path = tmp_path / "m.gguf"
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_tensor("x.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedCheckpoint, match=kind.name):
        open_checkpoint(path)


def test_mixtral_experts_are_unstacked(tmp_path: Path) -> None:
    experts = normal(3, 8, D)
    path = write(tmp_path / "m.gguf", "llama", {"blk.0.ffn_up_exps.weight": experts}, experts=3)
    same(path, {f"model.layers.0.block_sparse_moe.experts.{i}.w3.weight": experts[i] for i in range(3)})


def test_gpt2_matrices_lie_as_transformers_has_them(tmp_path: Path) -> None:
    fused = normal(D, 3 * D)
    path = write(tmp_path / "m.gguf", "gpt2", {"blk.0.attn_qkv.weight": fused.T.copy()})
    same(path, {"transformer.h.0.attn.c_attn.weight": fused})


def test_neox_qkv_is_interleaved_again(tmp_path: Path) -> None:
    fused = normal(3 * D, D)
    stored = fused.reshape(HEADS, 3, D // HEADS, D).swapaxes(0, 1).reshape(3 * D, D).copy()
    path = write(tmp_path / "m.gguf", "gptneox", {"blk.0.attn_qkv.weight": stored})
    same(path, {"gpt_neox.layers.0.attention.query_key_value.weight": fused})


def test_gemma_norms_lose_the_one_they_were_given(tmp_path: Path) -> None:
    gain = np.array([0.5, -0.25] * (D // 2), dtype=np.float32)
    path = write(tmp_path / "m.gguf", "gemma2", {"blk.0.attn_norm.weight": gain + 1})
    same(path, {"model.layers.0.input_layernorm.weight": gain})


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_mutated_files_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("gguf")
    stored = {"token_embd.weight": normal(3, D), "blk.0.attn_q.weight": normal(D, D)}
    content = bytearray(write(folder / "m.gguf", "llama", stored).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, 500))] = data.draw(st.integers(0, 255))
    (folder / "m.gguf").write_bytes(bytes(content))
    try:
        with open_checkpoint(folder / "m.gguf") as checkpoint:
            for name, info in checkpoint.tensors.items():
                assert checkpoint.tensor(name).shape == info.shape
    except CheckpointError:
        pass


_NAMES = """
attn_norm attn_q attn_k attn_v attn_qkv attn_output attn_q_norm attn_k_norm ffn_norm ffn_gate ffn_up ffn_down
ffn_gate_inp ffn_gate_exps ffn_gate_shexp ffn_gate_inp_shexp post_attention_norm post_ffw_norm attn_output_norm
layer_output_norm
"""
_STEMS = _NAMES.split()
_TOPS = ["token_embd", "output", "output_norm", "position_embd", "token_types", "token_embd_norm"]


@pytest.mark.parametrize(
    "architecture",
    ["LLAMA", "QWEN2", "QWEN3", "QWEN2MOE", "QWEN3MOE", "GEMMA", "GEMMA2", "GEMMA3", "PHI3", "GPT2", "GPTNEOX", "BERT"],
)
def test_names_are_the_inverse_of_the_converters_table(architecture: str) -> None:
    table = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture), 2)
    known = {name for _, name in table.mapping.values()}
    for name in [*_TOPS, *(f"blk.1.{stem}" for stem in _STEMS)]:
        if name in known:
            found = rename(f"{name}.weight", architecture.lower(), experts=False)
            found = found.replace("{}.", "").removesuffix(".weight")
            spellings = (found, found.removeprefix("model."), f"model.{found}")
            assert name in [table.get_name(spelling) for spelling in spellings], name
