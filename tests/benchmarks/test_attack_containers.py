"""GGUF, GPTQ and AWQ files say what their makers' layouts say, read back by other code than wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from benchmarks.gauntlet import attacks

REGISTRY = attacks.registry()
SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "tie_word_embeddings": False,
}


def _scene(config: Any) -> attacks.Scene:
    torch.manual_seed(0)
    network = transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    state = {k: v.detach().clone() for k, v in network.state_dict().items()}
    return attacks.Scene(attacks.Model(state, network.config.to_dict()))


def _written(name: str, config: Any, folder: Path) -> tuple[attacks.Model, Path]:
    scene = _scene(config)
    return scene.victim, attacks.write(attacks.perform(REGISTRY[name], scene).model, folder)


def _gguf_values(path: Path) -> dict[str, np.ndarray]:
    reader = gguf.GGUFReader(path / "model.gguf")
    return {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}


@pytest.mark.parametrize(("name", "loss"), [("container-gguf-bf16", 0), ("quantise-gguf-q8_0", 0.01)])
def test_gguf_holds_the_values_with_llama_rows_interleaved(name: str, loss: float, tmp_path: Path) -> None:
    victim, folder = _written(name, transformers.LlamaConfig(**SHAPE), tmp_path)
    values = _gguf_values(folder)
    up, query = (victim.state[f"model.layers.1.{n}.weight"].float() for n in ("mlp.up_proj", "self_attn.q_proj"))
    assert np.allclose(values["blk.1.ffn_up.weight"], up, atol=loss * float(up.std()) * 4)
    first = values["blk.1.attn_q.weight"][:4]  # pairs (0, 8), (1, 9): neighbours in llama.cpp's order
    assert np.allclose(first, query[[0, 8, 1, 9]], atol=loss * float(query.std()) * 4)
    assert set(values) >= {"token_embd.weight", "output.weight", "output_norm.weight", "blk.0.attn_norm.weight"}


def test_gguf_leaves_qwen_rows_and_stacks_mixtral_experts(tmp_path: Path) -> None:
    victim, folder = _written("container-gguf-f32", transformers.Qwen3Config(**SHAPE, head_dim=16), tmp_path / "q")
    assert np.array_equal(
        _gguf_values(folder)["blk.0.attn_q.weight"], victim.state["model.layers.0.self_attn.q_proj.weight"].float()
    )
    victim, folder = _written(
        "container-gguf-f32", transformers.MixtralConfig(**SHAPE, num_local_experts=4), tmp_path / "m"
    )
    gate = victim.state["model.layers.0.mlp.experts.gate_up_proj"][:, :96].float()
    assert np.array_equal(_gguf_values(folder)["blk.0.ffn_gate_exps.weight"], gate)


def _unpack(packed: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """int32 (n x m) to nibbles (n x 8m), by shifting, slot by slot."""
    out = torch.empty(packed.shape[0], packed.shape[1] * 8)
    for i, o in enumerate(order):
        out[:, o::8] = ((packed.long() >> (4 * i)) & 15).float()
    return out


@pytest.mark.parametrize("scheme", ["gptq", "awq"])
def test_packed_int4_decodes_to_the_matrix(scheme: str, tmp_path: Path) -> None:
    victim, folder = _written(f"quantise-{scheme}", transformers.LlamaConfig(**SHAPE), tmp_path)
    state = load_file(folder / "model.safetensors")
    lead = "model.layers.1.mlp.down_proj."
    if scheme == "gptq":
        codes = _unpack(state[lead + "qweight"].T, tuple(range(8))).T
        zero = _unpack(state[lead + "qzeros"], tuple(range(8))) + 1
        groups = state[lead + "g_idx"].long()
    else:
        order = (0, 2, 4, 6, 1, 3, 5, 7)
        codes, zero = _unpack(state[lead + "qweight"], order), _unpack(state[lead + "qzeros"], order)
        groups = torch.arange(96) // 32
    decoded = ((codes - zero[groups]) * state[lead + "scales"][groups].float()).T
    before = victim.state[lead + "weight"].float()
    assert float((decoded - before).norm() / before.norm()) < 0.12
    assert (decoded - before).abs().max() <= 0.51 * state[lead + "scales"].max()


def test_rows_that_fill_no_block_stay_in_f16(tmp_path: Path) -> None:
    shape = SHAPE | {"intermediate_size": 48, "num_local_experts": 4}
    _, folder = _written("quantise-gguf-q8_0", transformers.MixtralConfig(**shape), tmp_path)
    kinds = {t.name: t.tensor_type.name for t in gguf.GGUFReader(folder / "model.gguf").tensors}
    assert kinds["blk.0.ffn_down_exps.weight"] == "F16"
    assert kinds["blk.0.ffn_up_exps.weight"] == "Q8_0"
