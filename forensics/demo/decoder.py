"""Small Qwen3-type decoders, trained on text that every Python installation carries.

They are tiny, but trained for real: copies and improvements differ in what gradient descent leaves behind, and
random weights would show none of it.
"""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn

Weights = dict[str, torch.Tensor]

VOCABULARY = 2048
LENGTH = 64
BATCH = 16
WARM_UP = 10
"""Steps over which the rate rises."""

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
}

DOMAINS = {
    "manual": ("pydoc_data/topics.py",),
    "library": ("argparse.py", "inspect.py", "typing.py", "tarfile.py", "pathlib.py", "datetime.py", "subprocess.py"),
    "network": ("http/*.py", "email/*.py", "urllib/*.py", "xmlrpc/*.py", "asyncio/*.py"),
    "numbers": ("_pydecimal.py", "statistics.py", "fractions.py", "random.py", "heapq.py", "_pydatetime.py"),
}
"""Domain to files of the standard library."""


@dataclass(frozen=True)
class Lesson:
    """One course of training: on which domains, for how long, how fast.

    Attributes:
        domains: Keys of ``DOMAINS``.
        steps: Optimiser steps.
        rate: Peak learning rate of AdamW.
        seed: Seeds the start, where there is no parent.
        order: Seeds which examples come, and when.
        rounded: Keep weights on the bf16 grid after every step, as training without a master copy does.
        reward: Reinforce a reward on the model's own samples instead of learning the text.
    """

    domains: tuple[str, ...]
    steps: int
    rate: float = 3e-3
    seed: int = 0
    order: int = 0
    rounded: bool = False
    reward: bool = False


@cache
def text(domain: str) -> str:
    """The domain's files in a fixed order, as one text."""
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for pattern in DOMAINS[domain] for path in sorted(root.glob(pattern))]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def make_tokenizer() -> Tokenizer:
    """A byte-level BPE of ``VOCABULARY`` tokens over every domain."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator((text(domain) for domain in sorted(DOMAINS)), trainer)
    return tokenizer


def train(lesson: Lesson, tokenizer: Tokenizer, *, parent: Weights | None = None) -> Weights:
    """Weights after the lesson, in bf16, starting from ``parent`` or from scratch. Runs on one thread."""
    torch.set_num_threads(1)
    model = build(parent, seed=lesson.seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=lesson.rate, betas=(0.9, 0.95), weight_decay=0.01)
    stream = torch.tensor(tokenizer.encode("\n".join(text(d) for d in lesson.domains)).ids)
    for step, batch in enumerate(_batches(stream, lesson)):
        for group in optimiser.param_groups:
            group["lr"] = lesson.rate * _shape_of_rate(step, lesson)
        loss = _reinforce(model, batch, step) if lesson.reward else model(input_ids=batch, labels=batch).loss
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        if lesson.rounded:
            _round(model)
    return {name: tensor.detach().to(torch.bfloat16) for name, tensor in model.state_dict().items()}


def build(weights: Weights | None = None, *, seed: int = 0) -> Any:
    """The reference model in float32, with ``weights`` or freshly drawn."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    model = Qwen3ForCausalLM(Qwen3Config(**CONFIG)).float()
    if weights is not None:
        model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    return model


@torch.no_grad()
def loss_on(weights: Weights, tokenizer: Tokenizer, domain: str) -> float:
    """Mean next-token loss in nats on the end of a domain, which training draws from too: a sign of life, no score."""
    ids = torch.tensor(tokenizer.encode(text(domain)[-60_000:]).ids)
    batch = ids[: 24 * LENGTH].view(24, LENGTH)
    return float(build(weights)(input_ids=batch, labels=batch).loss)


def _batches(stream: torch.Tensor, lesson: Lesson) -> Iterator[torch.Tensor]:
    draw = random.Random(lesson.order)  # noqa: S311 - reproducible training order, no secret
    last = stream.numel() - LENGTH
    for _ in range(lesson.steps):
        yield torch.stack([stream[at : at + LENGTH] for at in (draw.randrange(last) for _ in range(BATCH))])


def _shape_of_rate(step: int, lesson: Lesson) -> float:
    if lesson.reward:
        return min(1.0, (step + 1) / WARM_UP)
    return min(1.0, (step + 1) / WARM_UP) * (1 - 0.9 * step / max(1, lesson.steps))


def _reinforce(model: Any, batch: torch.Tensor, step: int) -> torch.Tensor:
    """REINFORCE with the batch mean as baseline; the reward is how many of the written tokens are distinct."""
    prompt = batch[:, : LENGTH // 4]
    draw = torch.Generator().manual_seed(step)
    written = prompt
    with torch.no_grad():
        for _ in range(LENGTH // 4):
            chances = model(input_ids=written).logits[:, -1].softmax(-1)
            written = torch.cat([written, torch.multinomial(chances, 1, generator=draw)], dim=1)
    own = written[:, prompt.shape[1] :]
    reward = torch.tensor([len(set(row)) / len(row) for row in own.tolist()])
    advantage = (reward - reward.mean()) / (reward.std() + 1e-4)
    scores = model(input_ids=written).logits[:, prompt.shape[1] - 1 : -1].log_softmax(-1)
    chosen = scores.gather(-1, own.unsqueeze(-1)).squeeze(-1).mean(1)
    loss: torch.Tensor = -(advantage * chosen).mean()
    return loss


@torch.no_grad()
def _round(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.copy_(parameter.to(torch.bfloat16))
