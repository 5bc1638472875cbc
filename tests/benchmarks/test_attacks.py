"""Every symmetry is proven by logits in float64, per family; every other attack does what its name says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.overrides import TorchFunctionMode

from benchmarks.gauntlet import attacks
from benchmarks.gauntlet.attacks import Attack, Attacked, Model, Proof, Scene

REGISTRY = attacks.registry()
VOCABULARY = 96
TINY = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-12,
}
CONFIGS: dict[str, Any] = {
    "qwen3": lambda: transformers.Qwen3Config(**TINY, head_dim=8, tie_word_embeddings=False),
    "llama": lambda: transformers.LlamaConfig(**TINY, attention_bias=True, mlp_bias=True, tie_word_embeddings=False),
    "mistral": lambda: transformers.MistralConfig(**TINY, tie_word_embeddings=False),
    "qwen2": lambda: transformers.Qwen2Config(**TINY, tie_word_embeddings=True),
    "gemma": lambda: transformers.GemmaConfig(**TINY, head_dim=8),
    "gpt2": lambda: transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=64, bos_token_id=1, eos_token_id=2
    ),
    "mixtral": lambda: transformers.MixtralConfig(**TINY, num_local_experts=4, tie_word_embeddings=False),
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(
        **TINY, head_dim=8, num_experts=4, moe_intermediate_size=16, num_experts_per_tok=2, tie_word_embeddings=False
    ),
    "bert": lambda: transformers.BertConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=VOCABULARY,
        max_position_embeddings=64,
    ),
}
PROVEN = [
    pytest.param(name, family, id=f"{name}/{family}")
    for name, attack in REGISTRY.items()
    if attack.proof in (Proof.LOGITS, Proof.PROBABILITIES, Proof.HIDDEN) and not name.endswith("-f32")
    for family in CONFIGS
    if family in attack.families
]


class _Double(TorchFunctionMode):
    """transformers' norms, routers and softmax step down to float32; a proof to 1e-6 wants them in float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        swap = {torch.float32: torch.float64}
        args = tuple(swap.get(a, a) if isinstance(a, torch.dtype) else a for a in args)
        kwargs = {k: swap.get(v, v) if isinstance(v, torch.dtype) else v for k, v in (kwargs or {}).items()}
        return (torch.Tensor.double if func is torch.Tensor.float else func)(*args, **kwargs)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _network(config: Any) -> Any:
    if config.model_type == "bert":
        return transformers.BertModel(config)
    return transformers.AutoModelForCausalLM.from_config(config, experts_implementation="eager")


@cache
def _tiny(family: str, seed: int = 0, folder: Path | None = None) -> Model:
    """A random model of ``family`` in float64, with gains, biases and noise as training leaves them."""
    torch.manual_seed(seed)
    network = _network(CONFIGS[family]()).double().eval()
    with torch.no_grad():
        for name, value in network.named_parameters():
            if value.ndim == 1:
                value.add_(0.3 * torch.randn_like(value))
            elif "wpe" not in name and "position" not in name:
                value.mul_(4.0)
    state = {k: v.detach().clone() for k, v in network.state_dict().items()}
    if network.config.tie_word_embeddings and family != "bert":
        state.pop("lm_head.weight")
    tokenizer = {
        "model": {"type": "BPE", "vocab": {f"tok{i}": i for i in range(VOCABULARY)}},
        "added_tokens": [{"id": 2, "content": "tok2"}],
    }
    return Model(state, network.config.to_dict(), tokenizer)


def _scene(family: str, dtype: torch.dtype = torch.float64) -> Scene:
    base, victim, sibling, other, child, stranger = (
        _cast(_near(family, seed, step), dtype)
        for seed, step in ((0, 0.0), (0, 0.05), (0, 0.051), (0, 0.052), (0, 0.053), (9, 0.0))
    )
    return Scene(victim, base, (sibling, other), child, stranger)


def _near(family: str, seed: int, step: float) -> Model:
    model = _tiny(family, seed)
    rng = torch.Generator().manual_seed(int(step * 1e4))
    state = {k: v + step * torch.randn(v.shape, generator=rng, dtype=v.dtype) * v.abs() for k, v in model.state.items()}
    return replace(model, state=state) if step else model


def _cast(model: Model, dtype: torch.dtype) -> Model:
    return replace(model, state={k: v.to(dtype) for k, v in model.state.items()})


def _run(model: Model, ids: torch.Tensor) -> torch.Tensor:
    """Logits (or BERT's hidden states) in float64, through transformers' own class."""
    config = transformers.AutoConfig.for_model(**dict(model.config))
    network = _network(config).double().eval()
    state = dict(attacks.laid_out(model))
    if config.tie_word_embeddings and config.model_type != "bert":
        lead = "transformer.wte" if config.model_type == "gpt2" else "model.embed_tokens"
        state["lm_head.weight"] = state[f"{lead}.weight"]
    network.load_state_dict(state, strict=True)
    with torch.no_grad(), _Double():
        out = network(ids)
    return (out.last_hidden_state if config.model_type == "bert" else out.logits).double()


def _distance(attack: Attack, before: Model, done: Attacked) -> float:
    """Largest difference relative to the largest value, after undoing the renumbering the attack declares."""
    ids = torch.randint(3, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(5))
    first = _run(before, ids)
    second = _run(done.model, ids if done.token_map is None else done.token_map[ids])
    if attack.proof is Proof.HIDDEN or "bert" in before.config["model_type"]:
        second = second if done.output_map is None else second[..., done.output_map]
    else:
        second = second[..., :VOCABULARY] if done.token_map is None else second[..., done.token_map]
        if attack.proof is Proof.PROBABILITIES:
            first, second = first.log_softmax(-1), second.log_softmax(-1)
    return float((first - second).abs().max() / first.abs().max())


@pytest.mark.parametrize(("name", "family"), PROVEN)
def test_symmetry_keeps_the_function_and_changes_the_weights(name: str, family: str) -> None:
    scene = _scene(family)
    attack = REGISTRY[name]
    with _one_thread():
        done = attacks.perform(attack, scene)
        assert _distance(attack, scene.victim, done) < 1e-6
    assert done.transforms
    assert any(
        k not in scene.victim.state
        or v.shape != scene.victim.state[k].shape
        or not torch.equal(v, scene.victim.state[k])
        for k, v in done.model.state.items()
    )
