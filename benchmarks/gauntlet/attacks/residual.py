"""Symmetries of the residual stream: folded gains, rotation, scale, fake gains, permutation (2-weights section 4).

Convention: the stream is a column vector h; the rotated stream is R^T h, so rows that read it become W R, rows that
write it R^T W, and embeddings E R. RMSNorm commutes with R once its gain is 1; LayerNorm too, if R keeps the all-ones
vector. A tied head cannot absorb the final gain: it is untied first, or left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from benchmarks.gauntlet.attacks.draft import change, family, size, tied
from benchmarks.gauntlet.attacks.model import Draft, Scene
from fingerprint.architecture.interface import Role, Slot

READS_ATTENTION = frozenset({Role.QUERY, Role.KEY, Role.VALUE})
READS_MLP = frozenset({Role.GATE, Role.UP, Role.ROUTER, Role.SHARED_GATE})
WRITES = frozenset({Role.OUT, Role.DOWN})
WRITES_BIAS = frozenset({Role.OUT_BIAS, Role.DOWN_BIAS})
TABLES = frozenset({Role.EMBED, Role.POSITION, Role.TOKEN_TYPE})
NORMS = frozenset(
    {
        Role.NORM_ATTENTION,
        Role.NORM_MLP,
        Role.FINAL_NORM,
        Role.EMBED_NORM,
        Role.NORM_ATTENTION_BIAS,
        Role.NORM_MLP_BIAS,
        Role.FINAL_NORM_BIAS,
        Role.EMBED_NORM_BIAS,
    }
)


def gaussian(rng: torch.Generator, *shape: int) -> torch.Tensor:
    """Standard normal float64 numbers."""
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def orthogonal(rng: torch.Generator, n: int) -> torch.Tensor:
    """A Haar-distributed orthogonal matrix (n x n)."""
    q, r = torch.linalg.qr(gaussian(rng, n, n))
    signed: torch.Tensor = q * torch.sign(torch.diagonal(r))
    return signed


def permutation(rng: torch.Generator, n: int) -> torch.Tensor:
    """A random permutation of n, int64."""
    return torch.randperm(n, generator=rng)


def gain(draft: Draft, slot: Slot) -> torch.Tensor:
    """The factor a norm really applies (Gemma stores gain - 1)."""
    value = draft.tensors[slot]
    return value + 1 if family(draft) == "gemma" else value


def stored_gain(draft: Draft, value: torch.Tensor) -> torch.Tensor:
    """What the family stores for a gain."""
    return value - 1 if family(draft) == "gemma" else value


def readers(draft: Draft, norm: Slot) -> list[Slot]:
    """The matrices that read the stream through ``norm`` (pre-norm families)."""
    if norm.role is Role.FINAL_NORM:
        return [] if tied(draft) else [Slot(Role.HEAD)]
    roles = READS_ATTENTION if norm.role is Role.NORM_ATTENTION else READS_MLP
    return [s for s in draft.tensors if s.layer == norm.layer and s.role in roles]


def norms(draft: Draft) -> list[Slot]:
    """Norms whose gain can move into readers: both of every layer, and the final one when the head is untied."""
    found = [s for s in draft.tensors if s.role in (Role.NORM_ATTENTION, Role.NORM_MLP)]
    return found if tied(draft) else [*found, Slot(Role.FINAL_NORM)]


def untie(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Write the tied head out as a tensor of its own."""
    if not tied(draft):
        return draft
    out = change(draft, {Slot(Role.HEAD): draft.tensors[Slot(Role.EMBED)].clone()}, "untied", tie_word_embeddings=False)
    return replace(out, dtypes={**out.dtypes, Slot(Role.HEAD): draft.dtypes[Slot(Role.EMBED)]})


def _move_gains(draft: Draft, make: Callable[[torch.Tensor], torch.Tensor], word: str) -> Draft:
    """Give every foldable norm the gain ``make(old)`` and let its readers make up for it."""
    new: dict[Slot, torch.Tensor] = {}
    for norm in norms(draft):
        old = gain(draft, norm)
        fresh = make(old)
        bias = Slot(Role(norm.role.value + "_bias"), norm.layer)
        for reader in readers(draft, norm):
            new[reader] = draft.tensors[reader] * (old / fresh)
        if bias in draft.tensors:  # n*old + b = (n*fresh + b*fresh/old) * old/fresh
            new[bias] = draft.tensors[bias] * fresh / old
        new[norm] = stored_gain(draft, fresh)
    return change(draft, new, word)


def fold_norms(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Gains into readers, then gains 1; LayerNorm's offsets into the readers' biases where there are any."""
    out = _move_gains(draft, torch.ones_like, "folded:norms")
    new: dict[Slot, torch.Tensor] = {}
    for norm in norms(out):
        bias = Slot(Role(norm.role.value + "_bias"), norm.layer)
        if bias not in out.tensors:
            continue
        targets = {r: Slot(Role(r.role.value + "_bias"), r.layer) for r in readers(out, norm)}
        if not all(t in out.tensors for t in targets.values()):
            continue
        for reader, target in targets.items():
            new[target] = out.tensors[target] + out.tensors[reader] @ out.tensors[bias]
        new[bias] = torch.zeros_like(out.tensors[bias])
    return change(out, new)


def regain_norms(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Random gains in [.4, 2.5], log-normal about 1, undone by the readers."""

    def fresh(old: torch.Tensor) -> torch.Tensor:
        return torch.exp(0.4 * gaussian(rng, len(old))).clamp(0.4, 2.5)

    return _move_gains(draft, fresh, "regained:norms")


def _turn(draft: Draft, rotation: torch.Tensor) -> dict[Slot, torch.Tensor]:
    """Every reader, writer and table in the rotated stream; norm offsets turned, gains left to the caller."""
    new: dict[Slot, torch.Tensor] = {}
    for slot, value in draft.tensors.items():
        if slot.role in READS_ATTENTION | READS_MLP | TABLES or slot.role is Role.HEAD:
            new[slot] = value @ rotation
        elif slot.role in WRITES | WRITES_BIAS or (slot.role in NORMS and slot.role.value.endswith("_bias")):
            new[slot] = rotation.T @ value
        elif slot.role is Role.OTHER and slot.name == "pooler.dense.weight":
            new[slot] = value @ rotation
    return new


def centre(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """LayerNorm: take the mean over features out of everything that writes the stream (the norm removes it anyway)."""
    new: dict[Slot, torch.Tensor] = {}
    for slot, value in draft.tensors.items():
        if slot.role in TABLES or slot.role in WRITES_BIAS:
            new[slot] = value - value.mean(dim=-1, keepdim=True)
        elif slot.role in WRITES:
            new[slot] = value - value.mean(dim=0, keepdim=True)
    if tied(draft):
        raise ValueError("centre: got a tied head, expected an untied one; the head would be centred with the table")
    return change(draft, new, "folded:norms")


def rotate(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Dense random rotation of the stream after folding; a tied head is untied first.

    For LayerNorm the stream is centred and R fixes the all-ones vector, so that the norm's mean stays 0.
    """
    out = fold_norms(untie(draft, scene, rng), scene, rng)
    width = size(out, "hidden_size")
    rotation = orthogonal(rng, width)
    if family(out) == "gpt2":
        out = centre(out, scene, rng)
        ones = torch.full((width, 1), width**-0.5, dtype=torch.float64)
        basis, _ = torch.linalg.qr(torch.cat([ones, gaussian(rng, width, width - 1)], dim=1))
        inner = torch.eye(width, dtype=torch.float64)
        inner[1:, 1:] = orthogonal(rng, width - 1)
        rotation = basis @ inner @ basis.T
    return change(out, _turn(out, rotation), "rotated:residual")


def permute_residual(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Permute the stream's features with every table, norm, reader and writer; signs flipped too under RMSNorm.

    Keeps gains and tied heads. For BERT the hidden states come out permuted (``output_map``).
    """
    width, kind = size(draft, "hidden_size"), family(draft)
    if kind == "bert" and any(t.is_floating_point() for t in draft.rest.values()):
        raise ValueError(f"permute_residual: got tensors of unknown role {sorted(draft.rest)}, expected none")
    order = permutation(rng, width)
    signs = torch.ones(width, dtype=torch.float64)
    if kind not in ("gpt2", "bert"):
        signs = torch.where(torch.rand(width, generator=rng) < 0.5, -1.0, 1.0).double()
    rotation = torch.zeros(width, width, dtype=torch.float64)
    rotation[order, torch.arange(width)] = signs  # (R^T h)[i] = sign[i] h[order[i]]
    new = _turn(draft, rotation)
    for slot, value in draft.tensors.items():
        if slot.role in NORMS and not slot.role.value.endswith("_bias"):
            new[slot] = value[order]
    out = change(draft, new, "rotated:residual")
    return replace(out, output_map=torch.argsort(order)) if kind == "bert" else out


def scale_residual(draft: Draft, scene: Scene, rng: torch.Generator, factor: float = 1.7) -> Draft:
    """The stream times ``factor``: tables and writers grow, every norm divides it out again.

    The norm's epsilon is scaled with it, which makes it exact; a tied head is paid for by the final norm.
    """
    new = {s: v * factor for s, v in draft.tensors.items() if s.role in TABLES | WRITES | WRITES_BIAS}
    if tied(draft):
        final, bias = Slot(Role.FINAL_NORM), Slot(Role.FINAL_NORM_BIAS)
        new[final] = stored_gain(draft, gain(draft, final) / factor)
        if bias in draft.tensors:
            new[bias] = draft.tensors[bias] / factor
    default = 1e-5 if family(draft) == "gpt2" else 1e-6
    key = "layer_norm_epsilon" if family(draft) == "gpt2" else "rms_norm_eps"
    eps = float(draft.config.get(key, default)) * factor**2
    return change(draft, new, "rescaled:residual", norm_eps=eps)
