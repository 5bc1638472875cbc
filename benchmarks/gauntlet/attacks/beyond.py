"""Function-preserving changes of shape that the table of symmetries does not list: what a determined copier tries next.

Kept apart from the registry's main part: the tool makes no promise about them, and the gauntlet shows how it does.
Wider streams follow Net2Net (arXiv 1511.05641), dense to expert copies sparse upcycling (arXiv 2212.05055).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from benchmarks.gauntlet.attacks import heads, residual, units
from benchmarks.gauntlet.attacks.draft import change, size
from benchmarks.gauntlet.attacks.model import Attack, Draft, Proof, Scene, Step
from benchmarks.gauntlet.attacks.naming import DECODERS, FAMILIES
from benchmarks.gauntlet.attacks.residual import NORMS, READS_ATTENTION, READS_MLP, TABLES, WRITES, gaussian
from fingerprint.architecture.interface import Role, Slot
from fingerprint.compare.relation import Relation

_IN = frozenset({Role.GATE, Role.UP, Role.GATE_BIAS, Role.UP_BIAS})


def attacks() -> Iterator[Attack]:
    """Shape changes alone and under a rotation."""
    rms = DECODERS - {"gemma"}  # Gemma multiplies embeddings by sqrt(width)

    def make(name: str, *steps: Step, families: frozenset[str]) -> Attack:
        return Attack(name, Relation.EQUIVALENT, steps, families, proof=Proof.LOGITS, group="beyond")

    yield make("dead-units", dead_units, units.permute_units, families=FAMILIES)
    yield make("dead-heads", dead_heads, heads.permute_heads, families=DECODERS)
    yield make("expand-kv-heads", expand_heads, families=DECODERS)
    yield make("widen-residual", widen, families=rms)
    yield make("widen-rotate", widen, residual.rotate, families=rms)
    upcycled = make("upcycle", upcycle, families=frozenset({"llama", "mistral"}))
    yield replace(upcycled, when=lambda scene: not any(n.endswith(".bias") for n in scene.victim.state))


def _like(rows: torch.Tensor, count: int, rng: torch.Generator) -> torch.Tensor:
    """``count`` drawn rows that look like ``rows``."""
    return rows.mean() + rows.std() * gaussian(rng, count, *rows.shape[1:])


def dead_units(draft: Draft, scene: Scene, rng: torch.Generator, count: int = 16) -> Draft:
    """Units that compute something and write nothing."""
    new: dict[Slot, torch.Tensor] = {}
    for slot, value in draft.tensors.items():
        if slot.role in _IN:
            new[slot] = torch.cat([value, _like(value, count, rng)])
        elif slot.role is Role.DOWN:
            new[slot] = torch.cat([value, value.new_zeros(len(value), count)], dim=1)
    return change(draft, new, "padded:mlp", intermediate_size=size(draft, "intermediate_size") + count)


def dead_heads(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """As many heads again, whose output is not used (doubled, since configs want width to be a multiple of heads)."""
    dh, groups, count = (size(draft, k) for k in ("head_dim", "num_key_value_heads", "num_attention_heads"))
    extra = {Role.QUERY: count * dh, Role.KEY: groups * dh, Role.VALUE: groups * dh}
    new: dict[Slot, torch.Tensor] = {}
    for slot, value in draft.tensors.items():
        stem = Role(slot.role.value.removesuffix("_bias"))
        if stem in extra:
            new[slot] = torch.cat([value, _like(value, extra[stem], rng)])
        elif slot.role is Role.OUT:
            new[slot] = torch.cat([value, value.new_zeros(len(value), count * dh)], dim=1)
    more = {"num_attention_heads": 2 * count, "num_key_value_heads": 2 * groups, "head_dim": dh}
    return change(draft, new, "padded:heads", **more)


def expand_heads(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Grouped-query attention written out as multi-head attention: each query head gets its own key and value."""
    dh, groups, count = (size(draft, k) for k in ("head_dim", "num_key_value_heads", "num_attention_heads"))
    new: dict[Slot, torch.Tensor] = {}
    for slot, value in draft.tensors.items():
        if slot.role in (Role.KEY, Role.VALUE, Role.KEY_BIAS, Role.VALUE_BIAS):
            parts = value.reshape(groups, dh, *value.shape[1:])
            new[slot] = parts.repeat_interleave(count // groups, dim=0).reshape(-1, *value.shape[1:])
    return change(draft, new, "split:heads", num_key_value_heads=count, head_dim=dh)


def widen(draft: Draft, scene: Scene, rng: torch.Generator, count: int = 32) -> Draft:
    """A residual stream with features that are always zero, read by drawn weights; RMSNorm's mean is made up for."""
    width = size(draft, "hidden_size")
    shrink = width / (width + count)
    new: dict[Slot, torch.Tensor] = {}
    for slot, value in draft.tensors.items():
        if slot.role in READS_ATTENTION | READS_MLP or slot.role is Role.HEAD:
            new[slot] = torch.cat([value, value.std() * gaussian(rng, len(value), count)], dim=1)
        elif slot.role in TABLES:
            new[slot] = torch.cat([value, value.new_zeros(len(value), count)], dim=1)
        elif slot.role in WRITES:
            new[slot] = torch.cat([value, value.new_zeros(count, value.shape[1])])
        elif slot.role in (Role.OUT_BIAS, Role.DOWN_BIAS):
            new[slot] = torch.cat([value, value.new_zeros(count)])
        elif slot.role in NORMS:
            new[slot] = torch.cat([value, _like(value, count, rng)]) * shrink**0.5
    eps = float(draft.config.get("rms_norm_eps", 1e-6)) * shrink
    more = {"hidden_size": width + count, "head_dim": size(draft, "head_dim"), "norm_eps": eps}
    return change(draft, new, "padded:residual", **more)


def upcycle(draft: Draft, scene: Scene, rng: torch.Generator, experts: int = 4) -> Draft:
    """A dense model written as Mixtral: every expert the same MLP, a drawn router whose weights sum to 1."""
    tensors: dict[Slot, torch.Tensor] = {}
    dtypes: dict[Slot, torch.dtype] = {}
    for slot, value in draft.tensors.items():
        expert = slot.role in (Role.GATE, Role.UP, Role.DOWN)
        for into in (slot._replace(expert=e) for e in range(experts)) if expert else (slot,):
            tensors[into], dtypes[into] = value, draft.dtypes.get(slot, draft.dtype)
    for layer in range(size(draft, "num_hidden_layers")):
        tensors[Slot(Role.ROUTER, layer)] = 0.02 * gaussian(rng, experts, size(draft, "hidden_size"))
    config = {k: v for k, v in draft.config.items() if k not in ("mlp_bias", "attention_bias", "pretraining_tp")}
    config |= {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "head_dim": size(draft, "head_dim")}
    config |= {"num_local_experts": experts, "num_experts_per_tok": 2, "router_jitter_noise": 0.0}
    words = (*draft.transforms, "upcycled:experts")
    storage = replace(draft.storage, packed=True)
    return replace(draft, tensors=tensors, dtypes=dtypes, config=config, transforms=words, storage=storage)
