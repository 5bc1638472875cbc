"""Symmetries inside attention: value/output mixing, query/key trades, permuted heads (2-weights section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from benchmarks.gauntlet.attacks.draft import change, family, size
from benchmarks.gauntlet.attacks.model import Draft, Scene
from benchmarks.gauntlet.attacks.residual import gaussian, orthogonal, permutation
from fingerprint.architecture.interface import Role, Slot


@dataclass(frozen=True)
class _Attention:
    """One layer's attention cut by key/value group.

    Shapes: query (groups, per, dh, d), key and value (groups, dh, d), out (d, groups, per, dh); biases alike without
    d, zeros where the family has none.
    """

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    out: torch.Tensor
    query_bias: torch.Tensor
    key_bias: torch.Tensor
    value_bias: torch.Tensor

    @staticmethod
    def of(draft: Draft, layer: int) -> _Attention:
        """Cut layer ``layer``."""
        groups, dh = size(draft, "num_key_value_heads"), size(draft, "head_dim")
        per = size(draft, "num_attention_heads") // groups

        def take(role: Role, *shape: int) -> torch.Tensor:
            found = draft.tensors.get(Slot(role, layer))
            return (torch.zeros(shape, dtype=torch.float64) if found is None else found).reshape(*shape)

        width = size(draft, "hidden_size")
        return _Attention(
            take(Role.QUERY, groups, per, dh, width),
            take(Role.KEY, groups, dh, width),
            take(Role.VALUE, groups, dh, width),
            take(Role.OUT, width, groups, per, dh),
            take(Role.QUERY_BIAS, groups, per, dh),
            take(Role.KEY_BIAS, groups, dh),
            take(Role.VALUE_BIAS, groups, dh),
        )

    def slots(self, draft: Draft, layer: int) -> Iterator[tuple[Slot, torch.Tensor]]:
        """Back to the draft's slots; biases only where the family has them."""
        width = size(draft, "hidden_size")
        yield Slot(Role.QUERY, layer), self.query.reshape(-1, width)
        yield Slot(Role.KEY, layer), self.key.reshape(-1, width)
        yield Slot(Role.VALUE, layer), self.value.reshape(-1, width)
        yield Slot(Role.OUT, layer), self.out.reshape(width, -1)
        for role, bias in (
            (Role.QUERY_BIAS, self.query_bias),
            (Role.KEY_BIAS, self.key_bias),
            (Role.VALUE_BIAS, self.value_bias),
        ):
            if Slot(role, layer) in draft.tensors:
                yield Slot(role, layer), bias.reshape(-1)


def _invertible(rng: torch.Generator, n: int, spread: float = 0.3) -> torch.Tensor:
    """Random well-conditioned matrix: two rotations around log-normal singular values."""
    values = torch.exp(spread * gaussian(rng, n)).clamp(0.4, 2.5)
    return (orthogonal(rng, n) * values) @ orthogonal(rng, n)


def mix_values(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """W_v <- M W_v and, for every query head of the group, W_o,h <- W_o,h M^-1; M any invertible matrix."""
    new: dict[Slot, torch.Tensor] = {}
    for layer in range(size(draft, "num_hidden_layers")):
        a = _Attention.of(draft, layer)
        mix = torch.stack([_invertible(rng, a.value.shape[1]) for _ in range(len(a.value))])
        mixed = _Attention(
            a.query,
            a.key,
            torch.einsum("gij,gjd->gid", mix, a.value),
            torch.einsum("dgpi,gij->dgpj", a.out, torch.linalg.inv(mix)),
            a.query_bias,
            a.key_bias,
            torch.einsum("gij,gj->gi", mix, a.value_bias),
        )
        new |= dict(mixed.slots(draft, layer))
    return change(draft, new, "mixed:value-output")


def mix_queries(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """W_k <- S W_k, W_q <- S^-T W_q, with every S that the family's positions allow.

    RoPE: a rotation and a scale per frequency pair. Learned positions: any invertible S. QK-norm: see ``_trade_gains``.
    """
    if Slot(Role.QUERY_NORM, 0) in draft.tensors:
        return _trade_gains(draft, rng)
    free = family(draft) in ("gpt2", "bert")
    new: dict[Slot, torch.Tensor] = {}
    for layer in range(size(draft, "num_hidden_layers")):
        a = _Attention.of(draft, layer)
        dh = a.key.shape[1]
        mix = torch.stack([_invertible(rng, dh) if free else _paired(rng, dh) for _ in range(len(a.key))])
        back = torch.linalg.inv(mix).transpose(1, 2)
        mixed = _Attention(
            torch.einsum("gij,gpjd->gpid", back, a.query),
            torch.einsum("gij,gjd->gid", mix, a.key),
            a.value,
            a.out,
            torch.einsum("gij,gpj->gpi", back, a.query_bias),
            torch.einsum("gij,gj->gi", mix, a.key_bias),
            a.value_bias,
        )
        new |= dict(mixed.slots(draft, layer))
    return change(draft, new, "rotated:query-key", "rescaled:query-key")


def _paired(rng: torch.Generator, dh: int) -> torch.Tensor:
    """Give r Rot(t) for every frequency pair (i, i + dh/2) of transformers' half-split RoPE."""
    half = dh // 2
    angle = 2 * torch.pi * torch.rand(half, generator=rng, dtype=torch.float64)
    scale = torch.exp(0.3 * gaussian(rng, half)).clamp(0.5, 2.0)
    cos, sin = torch.diag(scale * angle.cos()), torch.diag(scale * angle.sin())
    return torch.cat([torch.cat([cos, -sin], dim=1), torch.cat([sin, cos], dim=1)])


def _trade_gains(draft: Draft, rng: torch.Generator) -> Draft:
    """QK-norm (Qwen3): each head's W_q and W_k scale freely, gains trade between q and k per pair, pairs flip sign.

    In-pair rotation by other angles is open only where the two gains of a pair are equal, which training breaks. The
    scale is exact up to the norm's epsilon.
    """
    new: dict[Slot, torch.Tensor] = {}
    for layer in range(size(draft, "num_hidden_layers")):
        a = _Attention.of(draft, layer)
        groups, per, dh, _ = a.query.shape
        pair = torch.exp(0.3 * gaussian(rng, dh // 2)).clamp(0.5, 2.0).repeat(2)
        new[Slot(Role.QUERY_NORM, layer)] = draft.tensors[Slot(Role.QUERY_NORM, layer)] * pair
        new[Slot(Role.KEY_NORM, layer)] = draft.tensors[Slot(Role.KEY_NORM, layer)] / pair
        flip = torch.where(torch.rand(groups, dh // 2, generator=rng) < 0.5, -1.0, 1.0).double().repeat(1, 2)
        q_scale = torch.exp(0.3 * gaussian(rng, groups, per)).clamp(0.5, 2.0)[:, :, None] * flip[:, None, :]
        k_scale = torch.exp(0.3 * gaussian(rng, groups)).clamp(0.5, 2.0)[:, None] * flip
        mixed = _Attention(
            a.query * q_scale[..., None],
            a.key * k_scale[..., None],
            a.value,
            a.out,
            a.query_bias * q_scale,
            a.key_bias * k_scale,
            a.value_bias,
        )
        new |= dict(mixed.slots(draft, layer))
    return change(draft, new, "rescaled:query-key", "rotated:query-key")


def permute_heads(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Permute key/value groups, and query heads inside each group, with W_o's columns."""
    new: dict[Slot, torch.Tensor] = {}
    for layer in range(size(draft, "num_hidden_layers")):
        a = _Attention.of(draft, layer)
        groups, per = a.query.shape[:2]
        order = permutation(rng, groups)
        inside = torch.stack([permutation(rng, per) for _ in range(groups)])
        rows = torch.arange(groups)[:, None]
        moved = _Attention(
            a.query[order][rows, inside],
            a.key[order],
            a.value[order],
            a.out[:, order][:, rows, inside],
            a.query_bias[order][rows, inside],
            a.key_bias[order],
            a.value_bias[order],
        )
        new |= dict(moved.slots(draft, layer))
    return change(draft, new, "permuted:heads")


def shift_biases(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Biases that attention cannot see (no RoPE): any key bias, and value bias moved into W_o's bias.

    Softmax over keys is blind to a constant, and its weights sum to 1, so W_o b_v can be added after instead.
    """
    new: dict[Slot, torch.Tensor] = {}
    for layer in range(size(draft, "num_hidden_layers")):
        value, key, out = (Slot(r, layer) for r in (Role.VALUE_BIAS, Role.KEY_BIAS, Role.OUT_BIAS))
        spread = draft.tensors[Slot(Role.KEY, layer)].std()
        new[key] = draft.tensors[key] + spread * gaussian(rng, len(draft.tensors[key]))
        new[out] = draft.tensors[out] + draft.tensors[Slot(Role.OUT, layer)] @ draft.tensors[value]
        new[value] = torch.zeros_like(draft.tensors[value])
    return change(draft, new, "shifted:biases")
