"""The same values stored otherwise, and writing any attacked model to disk."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks.gauntlet.attacks import containers, naming
from benchmarks.gauntlet.attacks.draft import change, family, size
from benchmarks.gauntlet.attacks.model import Draft, Model, Scene, Step

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}


def store(*words: str, **storage: Any) -> Step:
    """A step that only changes how the model is written (fields of ``Storage``)."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        return replace(change(draft, {}, *words), storage=replace(draft.storage, **storage))

    return step


def reshard(shards: int) -> Step:
    """Into ``shards`` files."""
    return store("resharded", shards=shards)


def rename(scheme: str, config: str = "keep") -> Step:
    """Other names, by ``naming.SCHEMES``; ``config`` as in Storage."""
    return store("renamed", names=scheme, config=config)


def cast(word: str, via: str = "") -> Step:
    """Another dtype, perhaps rounded through a third one (which leaves no trace worth naming).

    A cast to what it is already says nothing.
    """

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        words = [f"cast:{word}"] if DTYPES[word] != draft.dtype else []
        storage = replace(draft.storage, dtype=DTYPES[word], via=DTYPES[via] if via else None)
        return replace(change(draft, {}, *words), storage=storage)

    return step


def fuse(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """q/k/v and gate/up glued together (Phi-3's names); GPT-2's fused projection cut apart into Linear layout."""
    how, words = ("split", ("split-fused", "transposed")) if family(draft) == "gpt2" else ("join", ("fused",))
    return store(*words, fused=how)(draft, scene, rng)


def pack_experts(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Experts stacked into one tensor, as transformers 5 holds them."""
    return store("fused", packed=True)(draft, scene, rng)


def add_buffers(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Buffers that old versions saved: rotary frequencies, causal masks, position ids."""
    kind, lead = family(draft), naming.stem(family(draft))
    if kind == "bert":
        return store(extra={"embeddings.position_ids": torch.arange(512)[None]})(draft, scene, rng)
    if kind == "gpt2":
        name, buffer = "attn.bias", torch.ones(64, 64, dtype=torch.bool).tril()[None, None]
    else:
        half = size(draft, "head_dim") // 2
        name, buffer = "self_attn.rotary_emb.inv_freq", 1.0 / 10000 ** (torch.arange(half) / half)
    extra = {f"{lead}{i}.{name}": buffer.clone() for i in range(size(draft, "num_hidden_layers"))}
    return store(extra=extra)(draft, scene, rng)


def add_junk(fraction: float) -> Step:
    """Random tensors that no forward pass reads, ``fraction`` of the model's size."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        width = size(draft, "hidden_size")
        wanted = fraction * sum(v.numel() for v in draft.tensors.values())
        lead = naming.stem(family(draft))
        count = max(1, round(wanted / width**2))
        extra = {
            f"{lead}{i}.auxiliary_proj.weight": (torch.randn(width, width, generator=rng) * 0.02).to(draft.dtype)
            for i in range(count)
        }
        return store(extra=extra)(draft, scene, rng)

    return step


def laid_out(model: Model) -> dict[str, torch.Tensor]:
    """The state dict as ``model.storage`` wants it written: fused, renamed, cast, with extras."""
    storage, state = model.storage, dict(model.state)
    if storage.fused == "join":
        state = _join(state)
    elif storage.fused == "split":
        state = _split(state)
    state |= storage.extra
    if storage.names:
        state = {naming.SCHEMES[storage.names](name): tensor for name, tensor in state.items()}
    return {name: _cast(tensor, storage.via, storage.dtype) for name, tensor in state.items()}


def write(model: Model, folder: Path, *, shards: int | None = None, dtype: torch.dtype | None = None) -> Path:
    """Save ``model`` as a checkpoint folder.

    Args:
        model: What to save; its ``storage`` says how.
        folder: Made if absent; must not hold weights already.
        shards: Overrides the storage's number of files.
        dtype: Overrides the storage's cast.

    Returns:
        The folder.
    """
    storage = replace(
        model.storage,
        shards=shards or model.storage.shards,
        dtype=dtype or model.storage.dtype,
    )
    model = replace(model, storage=storage)
    folder.mkdir(parents=True, exist_ok=True)
    if storage.container.startswith("gguf-"):
        containers.write_gguf(model, storage.container.removeprefix("gguf-"), folder)
        return folder
    if storage.container in ("gptq", "awq"):
        state, config = containers.pack_int4(model, storage.container)
        model = replace(model, state=state, config=config)
    _write_weights(laid_out(model), storage.container, storage.shards, dict(storage.metadata), folder)
    if storage.config != "drop":
        config = _lie(model.config) if storage.config == "lie" else dict(model.config)
        if storage.dtype is not None:
            config["dtype"] = str(storage.dtype).removeprefix("torch.")
        (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    if model.tokenizer is not None:
        (folder / "tokenizer.json").write_text(json.dumps(model.tokenizer, ensure_ascii=False), encoding="utf-8")
    if model.vocab is not None:
        (folder / "vocab.txt").write_text("\n".join(model.vocab) + "\n", encoding="utf-8")
    return folder


def load(folder: Path) -> Model:
    """Read a folder that ``transformers`` or ``write`` saved (safetensors, one file or sharded)."""
    from safetensors.torch import load_file

    state: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        state |= load_file(file)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer, vocab = folder / "tokenizer.json", folder / "vocab.txt"
    return Model(
        state,
        config,
        json.loads(tokenizer.read_text(encoding="utf-8")) if tokenizer.exists() else None,
        tuple(vocab.read_text(encoding="utf-8").splitlines()) if vocab.exists() else None,
    )


def _write_weights(
    state: Mapping[str, torch.Tensor], container: str, shards: int, metadata: dict[str, str], folder: Path
) -> None:
    lead, ending = ("pytorch_model", "bin") if container == "torch" else ("model", "safetensors")

    def save(part: Mapping[str, torch.Tensor], name: str) -> None:
        solid = {k: v.contiguous().clone() for k, v in part.items()}
        if container == "torch":
            torch.save(solid, folder / name)
        else:
            save_file(solid, folder / name, metadata=metadata)

    if shards == 1:
        return save(state, f"{lead}.{ending}")
    weight_map: dict[str, str] = {}
    for i, names in enumerate(_deal(state, shards)):
        file = f"{lead}-{i + 1:05d}-of-{shards:05d}.{ending}"
        save({n: state[n] for n in names}, file)
        weight_map |= dict.fromkeys(names, file)
    total = sum(t.numel() * t.element_size() for t in state.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / f"{lead}.{ending}.index.json").write_text(json.dumps(index, indent=1), encoding="utf-8")
    return None


def _deal(state: Mapping[str, torch.Tensor], shards: int) -> list[list[str]]:
    """Names in order, cut into ``shards`` runs of about equal bytes, none empty."""
    names = list(state)
    if shards > len(names):
        raise ValueError(f"shards: got {shards}, expected at most {len(names)} (one tensor a file)")
    total = sum(t.numel() * t.element_size() for t in state.values())
    runs: list[list[str]] = [[]]
    seen = 0
    for i, name in enumerate(names):
        left = len(names) - i
        due = seen >= math.ceil(total / shards) * len(runs) or left == shards - len(runs)
        if runs[-1] and len(runs) < shards and due:
            runs.append([])
        runs[-1].append(name)
        seen += state[name].numel() * state[name].element_size()
    return runs


def _cast(tensor: torch.Tensor, via: torch.dtype | None, dtype: torch.dtype | None) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    tensor = tensor.to(via) if via is not None else tensor
    return tensor.to(dtype) if dtype is not None else tensor


def _join(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Glue q/k/v and gate/up of every layer, weights and biases."""
    out: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        for parts, into in (
            (("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "self_attn.qkv_proj"),
            (("attention.self.query", "attention.self.key", "attention.self.value"), "attention.self.qkv_proj"),
            ((".gate_proj", ".up_proj"), ".gate_up_proj"),
        ):
            if parts[0] in name:
                out[name.replace(parts[0], into)] = torch.cat([state[name.replace(parts[0], p)] for p in parts])
                break
            if any(p in name for p in parts):
                break
        else:
            out[name] = tensor
    return out


def _split(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """GPT-2: three projections instead of one, every Conv1D matrix turned into Linear's (out x in)."""
    out: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        turned = tensor.T if tensor.ndim == 2 and (".attn." in name or ".mlp." in name) else tensor
        if ".attn.c_attn." in name:
            for leaf, part in zip(("q_proj", "k_proj", "v_proj"), turned.chunk(3, dim=0), strict=True):
                out[name.replace("c_attn", leaf)] = part
        else:
            out[name] = turned
    return out


def _lie(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config that names another family and other sizes."""
    lie = dict(config)
    lie |= {"model_type": "mystery", "architectures": ["MysteryForCausalLM"], "hidden_size": 4096, "n_embd": 4096}
    lie |= {"num_attention_heads": 3, "n_head": 3, "num_hidden_layers": 99, "n_layer": 99}
    return lie
