"""Training of the honest models: next-token learning, adapters merged into weights, and distillation.

Everything runs on one thread from seeds, so that a family can be made again. Weights are float32 while they train and
are rounded once when stored, as most miners do; with ``Recipe.grid`` they are rounded after every step, which is what
training in bf16 without a master copy does, and why reward-driven updates touch few values (2-weights, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.utils import parametrize

from benchmarks.gauntlet.corpus import TokenStream
from benchmarks.gauntlet.recipes import Recipe

LENGTH = 64
"""Tokens per example."""
WARM_UP = 0.06
CLIP = 1.0


def trainable(model: Any, recipe: Recipe) -> list[nn.Parameter]:
    """Freeze what the recipe does not train; return what it does."""
    depth = model.config.num_hidden_layers
    keep: dict[str, Callable[[str, nn.Parameter], bool]] = {
        "all": lambda name, p: True,
        "attention": lambda name, p: "attn" in name,
        "last": lambda name, p: f".{depth - 1}." in name,
        "norms": lambda name, p: p.dim() == 1,
        "no-embeddings": lambda name, p: not any(w in name for w in ("embed", "wte", "wpe", "lm_head")),
    }
    chosen = keep[recipe.trainable]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(chosen(name, parameter))
    return [p for p in model.parameters() if p.requires_grad]


class Stepper:
    """AdamW with warm-up and cosine decay, clipping, and rounding to the bf16 grid where the recipe asks for it."""

    def __init__(self, parameters: Iterable[nn.Parameter], recipe: Recipe) -> None:
        self._parameters = list(parameters)
        self._recipe = recipe
        self._taken = 0
        self._optimiser = torch.optim.AdamW(
            self._parameters, lr=recipe.rate, betas=(0.9, 0.95), weight_decay=recipe.weight_decay
        )

    def _rate(self) -> float:
        warm = max(1, int(WARM_UP * self._recipe.steps))
        if self._taken < warm:
            return self._recipe.rate * (self._taken + 1) / warm
        if self._recipe.method in ("reward", "preference"):
            return self._recipe.rate
        done = (self._taken - warm) / max(1, self._recipe.steps - warm)
        return self._recipe.rate * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * done)))

    def step(self, loss: torch.Tensor) -> None:
        """One descent step on a scalar loss."""
        for group in self._optimiser.param_groups:
            group["lr"] = self._rate()
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self._parameters, CLIP)
        self._optimiser.step()
        self._optimiser.zero_grad(set_to_none=True)
        self._taken += 1
        if self._recipe.grid:
            with torch.no_grad():
                for parameter in self._parameters:
                    parameter.copy_(parameter.bfloat16())


def _batches(stream: TokenStream, recipe: Recipe) -> Iterator[torch.Tensor]:
    drawn = stream.examples(
        recipe.mix,
        recipe.steps * recipe.batch,
        LENGTH,
        data_seed=recipe.data_seed,
        order_seed=recipe.order_seed,
    )
    yield from torch.split(drawn, recipe.batch)


def learn(model: Any, stream: TokenStream, recipe: Recipe) -> None:
    """Next-token training in place."""
    stepper = Stepper(trainable(model, recipe), recipe)
    model.train()
    for batch in _batches(stream, recipe):
        stepper.step(model(input_ids=batch, labels=batch).loss)


def distil(model: Any, teacher: Any, stream: TokenStream, recipe: Recipe) -> None:
    """Train ``model`` in place on the teacher's next-token distributions (forward KL), never on its weights."""
    stepper = Stepper(trainable(model, recipe), recipe)
    model.train()
    teacher.eval()
    for batch in _batches(stream, recipe):
        with torch.no_grad():
            target = teacher(input_ids=batch).logits.softmax(-1)
        logits = model(input_ids=batch).logits.log_softmax(-1)
        stepper.step(nn.functional.kl_div(logits.flatten(0, 1), target.flatten(0, 1), reduction="batchmean"))


class _LowRank(nn.Module):
    """W + B A, for a matrix or a stack of matrices (experts): the adapter of arXiv 2106.09685."""

    def __init__(self, shape: torch.Size, rank: int, draw: torch.Generator) -> None:
        super().__init__()
        *stack, rows, columns = shape
        self.left = nn.Parameter(torch.zeros(*stack, rows, rank))
        self.right = nn.Parameter(torch.randn(*stack, rank, columns, generator=draw) / columns**0.5)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight + self.left @ self.right


@contextmanager
def adapted(model: nn.Module, recipe: Recipe) -> Iterator[list[nn.Parameter]]:
    """Adapters of ``recipe.rank`` on every layer matrix; on leaving, they are merged into the weights."""
    draw = torch.Generator().manual_seed(recipe.seed + 77)
    model.requires_grad_(False)
    targets = [
        (module, name)
        for path, module in model.named_modules()
        for name, p in module.named_parameters(recurse=False)
        if p.dim() >= 2 and any(part.isdigit() for part in path.split("."))
    ]
    for module, name in targets:
        parametrize.register_parametrization(module, name, _LowRank(getattr(module, name).shape, recipe.rank, draw))
    yield [p for p in model.parameters() if p.requires_grad]
    for module, name in targets:
        parametrize.remove_parametrizations(module, name, leave_parametrized=True)


def learn_adapter(model: Any, stream: TokenStream, recipe: Recipe) -> None:
    """Train a low-rank adapter and merge it, in place."""
    with adapted(model, recipe) as parameters:
        stepper = Stepper(parameters, recipe)
        model.train()
        for batch in _batches(stream, recipe):
            with parametrize.cached():
                stepper.step(model(input_ids=batch, labels=batch).loss)


@torch.no_grad()
def held_out(model: Any, stream: TokenStream, recipe: Recipe) -> float:
    """Mean next-token loss in nats on 48 examples of the recipe's domains that were not drawn for training."""
    batch = stream.examples(recipe.mix, 48, LENGTH, data_seed=recipe.data_seed + 50_000, order_seed=0)
    model.eval()
    return float(model(input_ids=batch, labels=batch).loss)
