"""Changes that carry no learning: drawn noise, pruning, scaling, quantise-dequantise (2-weights section 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from benchmarks.gauntlet.attacks.draft import change, size
from benchmarks.gauntlet.attacks.model import Draft, Scene, Step
from benchmarks.gauntlet.attacks.residual import gaussian, untie
from fingerprint.architecture.interface import Role, Slot

ATTENTION = frozenset({Role.QUERY, Role.KEY, Role.VALUE, Role.OUT})
MLP = frozenset({Role.GATE, Role.UP, Role.DOWN})
TABLES = frozenset({Role.EMBED, Role.HEAD})
Change = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def matrices(draft: Draft) -> list[Slot]:
    """Every matrix, tables and routers included."""
    return [slot for slot, value in draft.tensors.items() if value.ndim == 2]


def everywhere(make: Change, *words: str) -> Step:
    """A step that changes every matrix by ``make``."""
    return somewhere(make, lambda slot, draft: True, *words)


def somewhere(make: Change, where: Callable[[Slot, Draft], bool], *words: str) -> Step:
    """A step that changes by ``make`` the matrices for which ``where`` holds."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        chosen = [s for s in matrices(draft) if where(s, draft)]
        return change(draft, {s: make(draft.tensors[s], rng) for s in chosen}, *words)

    return step


def gaussian_noise(sigma: float) -> Change:
    """Independent noise of ``sigma`` times the matrix's standard deviation."""
    return lambda w, rng: w + sigma * w.std() * gaussian(rng, *w.shape)


def uneven_noise(sigma: float) -> Change:
    """Noise whose rows and columns differ in strength (log-normal), to look structured like learning."""

    def make(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        rows, cols = torch.exp(gaussian(rng, w.shape[0], 1)), torch.exp(0.5 * gaussian(rng, 1, w.shape[1]))
        noise = rows * cols * gaussian(rng, *w.shape)
        return w + sigma * w.std() * noise / noise.square().mean().sqrt()

    return make


def sparse_noise(fraction: float, sigma: float) -> Change:
    """Noise of ``sigma`` standard deviations on a random ``fraction`` of the values."""

    def make(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        hit = torch.rand(w.shape, generator=rng) < fraction
        return w + hit * sigma * w.std() * gaussian(rng, *w.shape)

    return make


def _sized(w: torch.Tensor, delta: torch.Tensor, relative: float) -> torch.Tensor:
    """Add ``delta`` with its norm made ``relative`` times that of ``w``."""
    return w + delta * (relative * float(w.norm()) / float(delta.norm()))


def low_rank(rank: int, relative: float) -> Change:
    """A random adapter B A of ``rank`` with |B A| = ``relative`` |W|."""

    def make(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        delta = gaussian(rng, w.shape[0], rank) @ gaussian(rng, rank, w.shape[1])
        return _sized(w, delta, relative)

    return make


def guided_low_rank(rank: int, relative: float) -> Change:
    """A random adapter whose right factor follows the matrix's own strongest inputs, to pass for learning.

    What a layer reads strongly resembles its real activations (2-weights section 5); the left factor stays drawn.
    """

    def make(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        _, s, vh = torch.linalg.svd(w, full_matrices=False)
        top = min(len(s), 4 * rank)
        right = gaussian(rng, rank, top) @ (s[:top, None] * vh[:top])
        delta = gaussian(rng, w.shape[0], rank) @ right
        return _sized(w, delta, relative)

    return make


def pruned(fraction: float) -> Change:
    """The smallest ``fraction`` of the magnitudes of each matrix set to zero."""

    def make(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        limit = w.abs().flatten().kthvalue(max(1, round(fraction * w.numel()))).values
        return torch.where(w.abs() <= limit, 0.0, w)

    return make


def scaled(factor: float) -> Change:
    """Every value times ``factor``."""
    return lambda w, rng: w * factor


def scaled_near(spread: float) -> Change:
    """Each matrix times its own factor in 1 +- ``spread``."""
    return lambda w, rng: w * (1 + spread * (2 * torch.rand(1, generator=rng, dtype=torch.float64) - 1))


def rowwise_int8(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """int8, one symmetric scale a row (output channel)."""
    scale = w.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
    return (w / scale).round().clamp(-127, 127) * scale


def tensor_int8(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """int8, one symmetric scale a tensor."""
    scale = w.abs().amax().clamp_min(1e-12) / 127
    return (w / scale).round().clamp(-127, 127) * scale


def grouped_int4(group: int) -> Change:
    """int4 with zero point, by groups of ``group`` inputs (as GPTQ and AWQ store them)."""

    def make(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
        parts = []
        for block in torch.split(w, group, dim=1):
            low, high = block.amin(dim=1, keepdim=True), block.amax(dim=1, keepdim=True)
            scale = ((high - low) / 15).clamp_min(1e-12)
            zero = (-low / scale).round()
            parts.append(((block / scale).round() + zero).clamp(0, 15).sub(zero).mul(scale))
        return torch.cat(parts, dim=1)

    return make


# QLoRA's NF4 levels, arXiv 2305.14314, appendix E.
_BELOW = (-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0)
_ABOVE = (0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0)
_NF4 = _BELOW + _ABOVE


def nf4(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """NormalFloat4 over flat blocks of 64, as bitsandbytes does."""
    levels = torch.tensor(_NF4, dtype=w.dtype)
    edges = (levels[1:] + levels[:-1]) / 2
    flat = torch.nn.functional.pad(w.flatten(), (0, -w.numel() % 64)).reshape(-1, 64)
    scale = flat.abs().amax(dim=1, keepdim=True).clamp_min(1e-12)
    codes = torch.bucketize((flat / scale).contiguous(), edges)
    return (levels[codes] * scale).flatten()[: w.numel()].reshape(w.shape)


def fp8(w: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """float8 e4m3 with one scale a tensor."""
    scale = w.abs().amax().clamp_min(1e-12) / 448
    return (w / scale).float().to(torch.float8_e4m3fn).double() * scale


def flip_ulps(fraction: float) -> Step:
    """One bf16 step up or down on a random ``fraction`` of all values: mimics the sparse traces of an RL update."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        new: dict[Slot, torch.Tensor] = {}
        for slot in matrices(draft):
            near = draft.tensors[slot].to(torch.bfloat16)
            hit = (torch.rand(near.shape, generator=rng) < fraction) & (near != 0)
            way = torch.where(torch.rand(near.shape, generator=rng) < 0.5, -1, 1)
            moved = (near.view(torch.int16) + hit * way).to(torch.int16).view(torch.bfloat16)
            new[slot] = draft.tensors[slot] + (moved.double() - near.double())
        return change(draft, new, f"sparse-noise:{fraction:g}")

    return step


def vector_noise(sigma: float) -> Step:
    """Noise on norms and biases only, relative to each vector's root mean square."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        new: Mapping[Slot, torch.Tensor] = {
            slot: value + sigma * value.square().mean().sqrt() * gaussian(rng, len(value))
            for slot, value in draft.tensors.items()
            if value.ndim == 1
        }
        return change(draft, new, f"noise:{sigma:g}")

    return step


def scale_logits(factor: float) -> Step:
    """The head alone times ``factor`` (untied first): sampling temperature moved into the weights."""

    def step(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
        out = untie(draft, scene, rng)
        head = Slot(Role.HEAD)
        return change(out, {head: out.tensors[head] * factor}, f"scaled:{factor:g}")

    return step


def upper_half(slot: Slot, draft: Draft) -> bool:
    """Layers of the upper half."""
    return slot.layer >= size(draft, "num_hidden_layers") // 2


def every_second(slot: Slot, draft: Draft) -> bool:
    """Odd layers."""
    return slot.layer % 2 == 1 and slot.layer >= 0


def in_attention(slot: Slot, draft: Draft) -> bool:
    """Attention's four projections."""
    return slot.role in ATTENTION


def in_mlp(slot: Slot, draft: Draft) -> bool:
    """MLP matrices."""
    return slot.role in MLP


def in_tables(slot: Slot, draft: Draft) -> bool:
    """Embedding and head."""
    return slot.role in TABLES


def outside_tables(slot: Slot, draft: Draft) -> bool:
    """Everything that quantisers usually touch: no embedding, no head, no router."""
    return slot.role in ATTENTION | MLP


def in_one_layer(slot: Slot, draft: Draft) -> bool:
    """The middle layer."""
    return slot.layer == size(draft, "num_hidden_layers") // 2
