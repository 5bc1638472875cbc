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
from fingerprint.compare.relation import Relation

REGISTRY = attacks.registry(beyond_the_table=True)
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
    if family in attack.families and (name, family) != ("upcycle", "llama")  # the tiny llama has biases
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
        "padding": {"strategy": {"Fixed": 16}, "pad_id": 0},
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


def _weights(model: Model) -> dict[str, torch.Tensor]:
    return attacks.laid_out(model)


def _sorted_values(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """All values of a model in one sorted line: blind to names, order, fusing and transposing."""
    return torch.cat([t.double().flatten() for t in tensors.values()]).sort().values


@pytest.mark.parametrize("family", list(CONFIGS))
@pytest.mark.parametrize("name", [n for n, a in REGISTRY.items() if a.proof is Proof.VALUES and "extra" not in n])
def test_identical_attacks_keep_every_value(name: str, family: str) -> None:
    scene, attack = _scene(family, torch.bfloat16), REGISTRY[name]
    if not attack.applies(scene):
        pytest.skip("needs another family or dtype")
    after = _weights(attacks.perform(attack, scene).model)
    before = dict(scene.victim.state)
    if name == "untie":
        after.pop("lm_head.weight")
    if "f16" in name:
        after, before = ({k: v.to(torch.float16) for k, v in s.items()} for s in (after, before))
    assert torch.equal(_sorted_values(after), _sorted_values(before))


def test_extras_leave_the_model_as_it_was() -> None:
    scene = _scene("llama", torch.bfloat16)
    for name in ("extra-buffers", "extra-junk-0.2"):
        after = _weights(attacks.perform(REGISTRY[name], scene).model)
        assert all(torch.equal(after.pop(k), v) for k, v in scene.victim.state.items())
        assert after


@pytest.mark.parametrize("scheme", ["rename-prefix", "rename-leaf", "rename-number", "rename-scramble"])
@pytest.mark.parametrize("family", list(CONFIGS))
def test_renaming_changes_names_and_loses_none(scheme: str, family: str) -> None:
    scene = _scene(family)
    after = _weights(attacks.perform(REGISTRY[scheme], scene).model)
    assert len(after) == len(scene.victim.state)
    assert len(set(after) & set(scene.victim.state)) <= len(after) // 4


@pytest.mark.parametrize("family", ["qwen2", "gpt2", "mixtral", "qwen3_moe", "bert"])
@pytest.mark.parametrize(
    "name", ["reupload", "reshard-7", "container-torch-sharded", "pack-experts", "untie", "split-permute-units"]
)
def test_transformers_loads_what_is_written(name: str, family: str, tmp_path: Path) -> None:
    """From the names transformers itself saves (experts apart) to a folder that it loads again."""
    config = CONFIGS[family]()
    torch.manual_seed(0)
    _network(config).save_pretrained(tmp_path / "saved")
    scene = Scene(attacks.load(tmp_path / "saved"))
    attack = REGISTRY[name]
    if not attack.applies(scene):
        pytest.skip("not for this family")
    folder = attacks.write(attacks.perform(attack, scene).model, tmp_path / "attacked")
    kind = transformers.AutoModel if family == "bert" else transformers.AutoModelForCausalLM
    ids = torch.arange(3, 20)[None]
    outs = []
    for path in (tmp_path / "saved", folder):
        with torch.no_grad():
            outs.append(kind.from_pretrained(path).eval()(ids)[0])
    assert torch.allclose(outs[0], outs[1], atol=1e-5)


def _delta(name: str, family: str = "llama", role: str = "mlp.up_proj.weight") -> tuple[torch.Tensor, torch.Tensor]:
    """(change, original) of one matrix, in float64."""
    scene = _scene(family)
    key = f"model.layers.1.{role}"
    return attacks.perform(REGISTRY[name], scene).model.state[key] - scene.victim.state[key], scene.victim.state[key]


@pytest.mark.parametrize("name", ["noise-0.001", "noise-0.2", "noise-uneven-0.05", "noise-mlp-0.02"])
def test_noise_is_as_strong_as_its_name_says(name: str) -> None:
    delta, before = _delta(name)
    assert float(delta.std() / before.std()) == pytest.approx(REGISTRY[name].strength, rel=0.15)


def test_selective_noise_leaves_the_rest_alone() -> None:
    assert not _delta("noise-attention-0.02")[0].any()
    assert _delta("noise-attention-0.02", role="self_attn.k_proj.weight")[0].all()
    assert not _delta("noise-embeddings-0.02")[0].any()


def test_pruning_zeroes_the_smallest() -> None:
    delta, before = _delta("prune-0.3")
    gone = delta != 0
    assert float(gone.double().mean()) == pytest.approx(0.3, abs=0.01)
    assert before[gone].abs().max() <= before[~gone].abs().min()


@pytest.mark.parametrize(
    ("name", "codes", "per_row"),
    [("quantise-int8-row", 255, True), ("quantise-int8-tensor", 255, False), ("quantise-fp8", 254, False)],
)
def test_quantising_leaves_few_codes(name: str, codes: int, per_row: bool) -> None:
    delta, before = _delta(name)
    after = delta + before
    groups = after if per_row else after.flatten()[None]
    assert all(len(g.round(decimals=12).unique()) <= codes for g in groups)
    assert 0 < float(delta.norm() / before.norm()) < 0.04


@pytest.mark.parametrize("name", ["quantise-int4-32", "quantise-nf4"])
def test_four_bits_leave_sixteen_codes_a_group(name: str) -> None:
    delta, before = _delta(name)
    after = delta + before
    groups = after.flatten().reshape(-1, 64) if "nf4" in name else after.reshape(-1, 32)
    assert max(len(g.round(decimals=12).unique()) for g in groups) <= 16
    assert 0.02 < float(delta.norm() / before.norm()) < 0.15


def test_adapters_have_their_rank_and_size() -> None:
    for name in ("adapter-random-4-0.005", "adapter-random-8-0.02", "adapter-guided-8-0.02"):
        delta, before = _delta(name)
        assert torch.linalg.matrix_rank(delta, rtol=1e-9) == (4 if "-4-" in name else 8)
        assert float(delta.norm() / before.norm()) == pytest.approx(REGISTRY[name].strength, rel=1e-6)


def test_ulps_move_a_tenth_of_bf16_values_by_one_step() -> None:
    scene = _scene("llama", torch.bfloat16)
    done = attacks.perform(REGISTRY["ulps-0.1"], scene).model.state
    key = "model.layers.0.self_attn.q_proj.weight"
    steps = done[key].view(torch.int16) - scene.victim.state[key].view(torch.int16)
    assert set(steps.unique().tolist()) == {-1, 0, 1}
    assert float((steps != 0).double().mean()) == pytest.approx(0.1, abs=0.04)


def test_mixtures_are_what_their_weights_say() -> None:
    scene = _scene("qwen3")
    places = {"victim": scene.victim, "base": scene.base, "sibling0": scene.siblings[0], "sibling1": scene.siblings[1]}
    for name in ("interpolate-0.1", "amplify-1.2", "soup-2-unequal", "soup-3-unequal", "soup-task-arithmetic"):
        done = attacks.perform(REGISTRY[name], scene)
        assert sum(done.weights.values()) == pytest.approx(1)
        for key, value in done.model.state.items():
            parts = [w * m.state[key] for p, w in done.weights.items() if (m := places[p]) is not None]
            assert torch.allclose(value, torch.stack(parts).sum(0), atol=1e-12)


def test_grafts_and_dropped_layers_keep_what_they_say() -> None:
    scene = _scene("qwen3_moe")
    assert scene.stranger is not None
    total = sum(v.numel() for v in scene.victim.state.values())
    done = attacks.perform(REGISTRY["graft-lower-half"], scene)
    own = sum(v.numel() for k, v in done.model.state.items() if torch.equal(v, scene.victim.state[k]))
    alien = sum(v.numel() for k, v in done.model.state.items() if torch.equal(v, scene.stranger.state[k]))
    assert own / total == pytest.approx(done.kept)
    assert own + alien == total
    for name in ("drop-first", "drop-last"):
        short = attacks.perform(REGISTRY[name], scene)
        assert short.model.config["num_hidden_layers"] == 1
        assert sum(v.numel() for v in short.model.state.values()) / total == pytest.approx(short.kept)


def test_a_permuted_vocabulary_takes_its_tokenizer_along() -> None:
    scene = _scene("llama")
    done = attacks.perform(REGISTRY["permute-vocabulary"], scene)
    assert done.token_map is not None
    assert done.model.tokenizer is not None
    assert done.model.tokenizer["model"]["vocab"]["tok7"] == int(done.token_map[7])
    assert done.model.tokenizer["added_tokens"][0]["id"] == int(done.token_map[2])
    assert done.model.tokenizer["padding"]["pad_id"] == int(done.token_map[0])
    assert done.model.config["eos_token_id"] == int(done.token_map[2])


@pytest.mark.parametrize("family", list(CONFIGS))
def test_every_attack_runs_in_bf16_and_is_drawn_from_its_seed(family: str) -> None:
    scene = _scene(family, torch.bfloat16)
    for name, attack in REGISTRY.items():
        if not attack.applies(scene):
            continue
        first = _weights(attacks.perform(attack, scene, seed=1).model)
        assert all(v.isfinite().all() for v in first.values()), name
        if name in ("everything", "noise-0.01", "stack-everything-noise-rename"):
            again, other = (_weights(attacks.perform(attack, scene, seed=s).model) for s in (1, 2))
            assert all(torch.equal(v, again[k]) for k, v in first.items())
            assert not all(torch.equal(v, other[k]) for k, v in first.items())


def test_the_registry_is_large_and_knows_what_is_a_copy() -> None:
    made = [a for a in REGISTRY.values() if a.group != "control"]
    assert len(made) >= 45
    assert {a.relation for a in made} == {
        Relation.IDENTICAL,
        Relation.EQUIVALENT,
        Relation.PERTURBED,
        Relation.MERGED,
        Relation.PARTIAL,
    }
    assert not any(a.copy for a in REGISTRY.values() if a.group in ("control", "merged", "partial"))
    assert all(set(n) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-") for n in REGISTRY)


def test_an_attack_out_of_place_is_refused() -> None:
    with pytest.raises(ValueError, match="expected"):
        attacks.perform(REGISTRY["permute-experts"], _scene("llama"))
    with pytest.raises(ValueError, match="expected"):
        attacks.perform(REGISTRY["soup-2-equal"], Scene(_tiny("llama")))
