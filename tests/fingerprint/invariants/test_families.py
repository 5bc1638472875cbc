"""Experts, plain MLPs and centred norms: the symmetries that Llama-type decoders do not have."""

from __future__ import annotations

import numpy as np
import torch

from fingerprint.fingerprint import IDS, Fingerprint
from fingerprint.scan import scan
from tests.fingerprint.memory import MemoryCheckpoint

D, HEADS, UNITS, VOCAB, EXPERTS = 64, 4, 48, 150, 4
Weights = dict[str, torch.Tensor]


def _match(first: np.ndarray, second: np.ndarray) -> float:
    """Largest distance from a row of the first to its nearest row of the second."""
    a, b = first.astype(np.float64), second.astype(np.float64)
    return float(np.linalg.norm(a[:, None] - b[None], axis=2).min(axis=1).max())


def _normal(g: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=g, dtype=torch.float64) / shape[-1] ** 0.5


def _gain(g: torch.Generator) -> torch.Tensor:
    return 0.5 + torch.rand(D, generator=g, dtype=torch.float64)


def _mixtral() -> Weights:
    g = torch.Generator().manual_seed(0)
    w: Weights = {"model.embed_tokens.weight": _normal(g, VOCAB, D), "lm_head.weight": _normal(g, VOCAB, D)}
    w["model.norm.weight"] = _gain(g)
    for i in range(2):
        p = f"model.layers.{i}"
        w |= {f"{p}.{n}.weight": _gain(g) for n in ("input_layernorm", "post_attention_layernorm")}
        w |= {f"{p}.self_attn.{n}_proj.weight": _normal(g, D, D) for n in "qkvo"}
        w[f"{p}.block_sparse_moe.gate.weight"] = _normal(g, EXPERTS, D)
        for e in range(EXPERTS):
            q = f"{p}.block_sparse_moe.experts.{e}"
            w |= {f"{q}.w1.weight": _normal(g, UNITS, D), f"{q}.w3.weight": _normal(g, UNITS, D)}
            w[f"{q}.w2.weight"] = _normal(g, D, UNITS)
    return w


def _scan_mixtral(weights: Weights) -> Fingerprint:
    config = {
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "hidden_size": D,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "num_hidden_layers": 2,
        "intermediate_size": UNITS,
        "vocab_size": VOCAB,
        "num_local_experts": EXPERTS,
    }
    return scan(MemoryCheckpoint({k: v.float() for k, v in weights.items()}, config))


def test_permuted_experts_choose_the_same_units() -> None:
    weights = _mixtral()
    moved = dict(weights)
    order = [2, 0, 3, 1]
    for i in range(2):
        p = f"model.layers.{i}.block_sparse_moe"
        moved[f"{p}.gate.weight"] = weights[f"{p}.gate.weight"][order]
        for new, old in enumerate(order):
            for n in ("w1", "w2", "w3"):
                moved[f"{p}.experts.{new}.{n}.weight"] = weights[f"{p}.experts.{old}.{n}.weight"]
    before, after = _scan_mixtral(weights), _scan_mixtral(moved)
    assert before.nameless_root != after.nameless_root
    for index, layer in before.layers.items():
        units, others = layer.units, after.layers[index].units
        assert units is not None
        assert others is not None
        assert units.count == EXPERTS * UNITS
        assert set(units.expert) == set(range(EXPERTS))
        assert _match(units.triples, others.triples) < 0.02
        assert _match(units.gate[IDS], others.gate[IDS]) < 0.01
        assert _match(units.up[IDS], others.up[IDS]) < 0.01
        places = {(order[e], i) for e, i in zip(others.expert.tolist(), others.index.tolist(), strict=True)}
        assert places == set(zip(units.expert.tolist(), units.index.tolist(), strict=True))


def _gpt2() -> Weights:
    g = torch.Generator().manual_seed(1)
    w: Weights = {"wte.weight": _normal(g, VOCAB, D) * 8, "wpe.weight": _normal(g, 32, D)}
    w |= {"ln_f.weight": _gain(g), "ln_f.bias": _normal(g, D)}
    for i in range(2):
        p = f"h.{i}"
        for n in ("ln_1", "ln_2"):
            w |= {f"{p}.{n}.weight": _gain(g), f"{p}.{n}.bias": _normal(g, D)}
        for n, (rows, columns) in {
            "attn.c_attn": (D, 3 * D),
            "attn.c_proj": (D, D),
            "mlp.c_fc": (D, 4 * D),
            "mlp.c_proj": (4 * D, D),
        }.items():
            w |= {f"{p}.{n}.weight": _normal(g, rows, columns), f"{p}.{n}.bias": _normal(g, columns)}
    return w


def _scan_gpt2(weights: Weights) -> Fingerprint:
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "n_embd": D,
        "n_head": HEADS,
        "n_layer": 2,
        "n_positions": 32,
        "vocab_size": VOCAB,
        "activation_function": "gelu_new",
    }
    return scan(MemoryCheckpoint({k: v.float() for k, v in weights.items()}, config))


def test_layer_norm_models_may_be_centred_folded_rotated_and_permuted() -> None:
    """A rotation that fixes the mean direction, after folding gains; Conv1D stores (in x out)."""
    weights = _gpt2()
    g = torch.Generator().manual_seed(5)
    basis, _ = torch.linalg.qr(torch.cat([torch.ones(D, 1), torch.randn(D, D - 1, generator=g)], dim=1).double())
    inner, _ = torch.linalg.qr(torch.randn(D - 1, D - 1, generator=g, dtype=torch.float64))
    turn = torch.eye(D, dtype=torch.float64)
    turn[1:, 1:] = inner
    r = basis @ turn @ basis.T
    moved = dict(weights)
    for name in ("wte.weight", "wpe.weight"):
        centred = weights[name] - weights[name].mean(dim=1, keepdim=True)
        moved[name] = centred @ r
    for i in range(2):
        p = f"h.{i}"
        order = torch.randperm(4 * D, generator=g)
        for norm, reader in (("ln_1", "attn.c_attn"), ("ln_2", "mlp.c_fc")):
            matrix = weights[f"{p}.{reader}.weight"] * weights[f"{p}.{norm}.weight"][:, None]
            moved[f"{p}.{reader}.weight"] = r.T @ (matrix - matrix.mean(dim=0, keepdim=True))
            moved[f"{p}.{norm}.weight"] = torch.ones(D, dtype=torch.float64)
        for writer in ("attn.c_proj", "mlp.c_proj"):
            matrix = weights[f"{p}.{writer}.weight"]
            moved[f"{p}.{writer}.weight"] = (matrix - matrix.mean(dim=1, keepdim=True)) @ r
        moved[f"{p}.mlp.c_fc.weight"] = moved[f"{p}.mlp.c_fc.weight"][:, order]
        moved[f"{p}.mlp.c_proj.weight"] = moved[f"{p}.mlp.c_proj.weight"][order]
    before, after = _scan_gpt2(weights), _scan_gpt2(moved)
    assert before.meta.family == "gpt2"
    assert set(before.layers) == {0, 1}
    for index, layer in before.layers.items():
        units, others = layer.units, after.layers[index].units
        assert units is not None
        assert others is not None
        assert not units.up
        assert _match(units.triples, others.triples) < 0.02
        assert _match(units.gate[IDS], others.gate[IDS]) < 0.01
        assert _match(units.down[IDS], others.down[IDS]) < 0.01
        heads, other_heads = layer.heads, after.layers[index].heads
        assert heads is not None
        assert other_heads is not None
        np.testing.assert_allclose(heads.value_output, other_heads.value_output, atol=2e-3)
        np.testing.assert_allclose(heads.query_key, other_heads.query_key, atol=2e-3)
    np.testing.assert_allclose(before.tokens[IDS].embed, after.tokens[IDS].embed, atol=2e-3)
