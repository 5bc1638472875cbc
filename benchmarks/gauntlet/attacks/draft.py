"""Taking a state dict apart into roles and putting it back, so that each symmetry is written once for all families."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from benchmarks.gauntlet.attacks import naming
from benchmarks.gauntlet.attacks.model import Draft, Model
from fingerprint.architecture.interface import Role, Slot

_GPT2_CONFIG = {
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "hidden_size": "n_embd",
    "intermediate_size": "n_inner",
    "norm_eps": "layer_norm_epsilon",
}
_ROWS = {Role.QUERY, Role.KEY, Role.VALUE}
_CONV1D = {Role.OUT, Role.UP, Role.DOWN, *_ROWS}  # GPT-2 stores these (in x out)
_POOLER = ("pooler.dense.weight", "pooler.dense.bias")


def config_key(config: Mapping[str, Any], key: str) -> str:
    """The family's own word for ``key``."""
    family = config["model_type"]
    if family == "gpt2":
        return _GPT2_CONFIG.get(key, key)
    if key == "norm_eps":
        return "layer_norm_eps" if family == "bert" else "rms_norm_eps"
    if key == "intermediate_size" and family == "qwen3_moe":
        return "moe_intermediate_size"
    if key == "experts":
        return "num_local_experts" if family == "mixtral" else "num_experts"
    return key


def size(draft: Draft | Mapping[str, Any], key: str) -> int:
    """A size of the model by transformers' common word (``hidden_size``, ``num_hidden_layers``, ...)."""
    config = draft.config if isinstance(draft, Draft) else draft
    if key == "head_dim":
        return int(config.get("head_dim") or size(config, "hidden_size") // size(config, "num_attention_heads"))
    if key == "num_key_value_heads":
        return int(config.get(key) or size(config, "num_attention_heads"))
    value = config.get(config_key(config, key))
    if value is None and key in ("experts",):
        value = config.get("num_local_experts") or config.get("num_experts") or 0
    if value is None and key == "intermediate_size":
        value = 4 * size(config, "hidden_size")
    return int(value or 0)


def family(draft: Draft) -> str:
    """The ``model_type``."""
    return str(draft.config["model_type"])


def tied(draft: Draft) -> bool:
    """Whether the head is the embedding (also for BERT, which has none)."""
    return Slot(Role.HEAD) not in draft.tensors


def change(draft: Draft, tensors: Mapping[Slot, torch.Tensor], *words: str, **config: Any) -> Draft:
    """``draft`` with some tensors and config values replaced and words added to its transforms."""
    new = {config_key(draft.config, k): v for k, v in config.items()}
    return replace(
        draft,
        tensors={**draft.tensors, **tensors},
        config={**draft.config, **new},
        transforms=draft.transforms + tuple(w for w in words if w not in draft.transforms),
    )


def read(model: Model) -> Draft:
    """Take ``model`` apart.

    Args:
        model: State dict as transformers saves it: float tensors of any dtype.

    Returns:
        The draft, with every floating tensor of a known role in float64.
    """
    kind = model.config["model_type"]
    layers, experts = size(model.config, "num_hidden_layers"), size(model.config, "experts")
    known = naming.slots_by_name(kind, layers, experts)
    state, prefix = _strip(model.state, kind)
    state, packed = _unpack(state, kind, layers)
    slots: dict[Slot, torch.Tensor] = {}
    rest: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        if kind == "gpt2" and ".attn.c_attn." in name:
            slots |= _cut_gpt2(name, tensor)
        elif name in known:
            slots[known[name]] = tensor.T if _stands(kind, known[name]) else tensor
        elif name in _POOLER:
            slots[Slot(Role.OTHER, name=name)] = tensor
        else:
            rest[name] = tensor
    if model.config.get("tie_word_embeddings", kind == "gpt2") and kind != "bert":
        slots.pop(Slot(Role.HEAD), None)
    main = Counter(t.dtype for t in slots.values()).most_common(1)[0][0]
    return Draft(
        tensors={s: t.double() for s, t in slots.items()},
        dtypes={s: t.dtype for s, t in slots.items()},
        dtype=main,
        rest=rest,
        config=dict(model.config),
        tokenizer=model.tokenizer,
        vocab=model.vocab,
        storage=replace(model.storage, prefix=prefix, packed=packed),
    )


def emit(draft: Draft) -> Model:
    """Put ``draft`` together again under transformers' names.

    Each tensor is rounded once, to the dtype it was stored in or to the one it is cast to.
    """
    kind = family(draft)
    final = None if draft.storage.via is not None else draft.storage.dtype
    state: dict[str, torch.Tensor] = {}
    fused: dict[int, dict[Slot, torch.Tensor]] = {}
    for slot, value in draft.tensors.items():
        tensor = value.to(final or draft.dtypes.get(slot, draft.dtype))
        if kind == "gpt2" and _stem(slot.role) in _ROWS:
            fused.setdefault(slot.layer, {})[slot] = tensor
        else:
            state[naming.name_of(slot, kind)] = tensor.T.contiguous() if _stands(kind, slot) else tensor.contiguous()
    for layer, parts in fused.items():
        state |= _join_gpt2(layer, parts)
    if draft.storage.packed:
        state = _pack(state, kind, size(draft, "num_hidden_layers"), size(draft, "experts"))
    state |= draft.rest
    lead = draft.storage.prefix
    state = {name if _outside(name) else lead + name: tensor for name, tensor in state.items()}
    return Model(state, draft.config, draft.tokenizer, draft.vocab, draft.storage)


def _outside(name: str) -> bool:
    """Names that stand beside the body, not in it."""
    return name.startswith(("lm_head.", "cls."))


def _strip(state: Mapping[str, torch.Tensor], kind: str) -> tuple[dict[str, torch.Tensor], str]:
    """Names with the family's usual lead, and what must be put back in front when written."""
    if kind == "bert" and any(n.startswith("bert.") for n in state):
        return {n.removeprefix("bert."): t for n, t in state.items()}, "bert."
    return dict(state), ""


def _stem(role: Role) -> Role:
    return Role(role.value.removesuffix("_bias"))


def _stands(kind: str, slot: Slot) -> bool:
    return kind == "gpt2" and slot.role in _CONV1D


def _cut_gpt2(name: str, tensor: torch.Tensor) -> dict[Slot, torch.Tensor]:
    layer = int(name.split(".h.")[1].split(".")[0])
    parts = (tensor.T if tensor.ndim == 2 else tensor).chunk(3, dim=0)
    ending = "_bias" if tensor.ndim == 1 else ""
    return {Slot(Role(r + ending), layer): p for r, p in zip(("query", "key", "value"), parts, strict=True)}


def _join_gpt2(layer: int, parts: Mapping[Slot, torch.Tensor]) -> dict[str, torch.Tensor]:
    out = {}
    for ending, leaf in (("", "weight"), ("_bias", "bias")):
        rows = torch.cat([parts[Slot(Role(r + ending), layer)] for r in ("query", "key", "value")])
        out[f"transformer.h.{layer}.attn.c_attn.{leaf}"] = rows.T.contiguous() if rows.ndim == 2 else rows
    return out


def _unpack(state: dict[str, torch.Tensor], kind: str, layers: int) -> tuple[dict[str, torch.Tensor], bool]:
    if kind not in naming.MOE_TYPES or f"model.layers.0.{naming.PACKED[0]}" not in state:
        return state, False
    for i in range(layers):
        lead = f"model.layers.{i}."
        both, down = state.pop(lead + naming.PACKED[0]), state.pop(lead + naming.PACKED[1])
        router = state.pop(lead + naming.PACKED_ROUTER)
        state[naming.name_of(Slot(Role.ROUTER, i), kind)] = router
        for e in range(len(both)):
            gate, up = both[e].chunk(2, dim=0)
            for role, part in ((Role.GATE, gate), (Role.UP, up), (Role.DOWN, down[e])):
                state[naming.name_of(Slot(role, i, e), kind)] = part
    return state, True


def _pack(state: dict[str, torch.Tensor], kind: str, layers: int, experts: int) -> dict[str, torch.Tensor]:
    for i in range(layers):
        lead = f"model.layers.{i}."
        taken = {
            role: [state.pop(naming.name_of(Slot(role, i, e), kind)) for e in range(experts)]
            for role in (Role.GATE, Role.UP, Role.DOWN)
        }
        both = [torch.cat(pair) for pair in zip(taken[Role.GATE], taken[Role.UP], strict=True)]
        router = state.pop(naming.name_of(Slot(Role.ROUTER, i), kind))
        state[lead + naming.PACKED[0]] = torch.stack(both)
        state[lead + naming.PACKED[1]] = torch.stack(taken[Role.DOWN])
        state[lead + naming.PACKED_ROUTER] = router
    return state
