"""Updates driven by reward or preference on list tasks: the lightest honest improvements, and the hardest to clear.

``reinforce`` is group-relative policy gradient (GRPO without a KL term, arXiv 2402.03300): answers are sampled, judged
by a program, and their log-probabilities are moved by the group-normalised advantage. ``prefer`` is DPO
(arXiv 2305.18290) on right answers against corrupted ones.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import torch
from tokenizers import Tokenizer

from benchmarks.gauntlet.corpus import Task, tasks
from benchmarks.gauntlet.recipes import Recipe
from benchmarks.gauntlet.train import Stepper, trainable

GROUP = 8
ANSWER_TOKENS = 10
BETA = 0.1


def judge(answer: str, task: Task) -> float:
    """Reward in [0, 1.5]: share of characters right at their place, and half a point for a wholly right answer."""
    given = answer.split("\n")[0]
    right = sum(a == b for a, b in zip(given, task.answer, strict=False))
    return right / max(len(task.answer), len(given), 1) + 0.5 * (given == task.answer)


class TaskPool:
    """Tasks whose prompts have one common number of tokens, so that they batch without padding."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self._tokenizer = tokenizer
        encoded = [(t, tokenizer.encode("\n" + t.prompt).ids) for t in tasks(4000, seed)]
        common = Counter(len(ids) for _, ids in encoded).most_common(1)[0][0]
        self._pool = [(t, ids) for t, ids in encoded if len(ids) == common]
        self._draw = random.Random(seed)

    def draw(self, count: int) -> tuple[list[Task], torch.Tensor]:
        """``count`` tasks and their prompt tokens (count, length) int64."""
        chosen = self._draw.sample(self._pool, count)
        return [t for t, _ in chosen], torch.tensor([ids for _, ids in chosen])

    def decode(self, tokens: torch.Tensor) -> list[str]:
        """Text of each row."""
        return list(self._tokenizer.decode_batch(tokens.tolist()))

    def answers(self, texts: list[str]) -> torch.Tensor:
        """Tokens of ``texts``, each followed by a newline, cut or padded with newlines to ``ANSWER_TOKENS``."""
        newline = self._tokenizer.encode("\n").ids[0]
        rows = [self._tokenizer.encode(t).ids[:ANSWER_TOKENS] for t in texts]
        return torch.tensor([r + [newline] * (ANSWER_TOKENS - len(r)) for r in rows])


@torch.no_grad()
def sample(model: Any, prompts: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """Sample ``ANSWER_TOKENS`` tokens per prompt at temperature 1."""
    cache = None
    tokens = prompts
    fresh = prompts
    for _ in range(ANSWER_TOKENS):
        out = model(input_ids=fresh, cache=cache, use_cache=True)
        cache = out.past_key_values
        fresh = torch.multinomial(out.logits[:, -1].softmax(-1), 1, generator=draw)
        tokens = torch.cat([tokens, fresh], dim=1)
    return tokens[:, prompts.shape[1] :]


def _log_probabilities(model: Any, prompts: torch.Tensor, answers: torch.Tensor) -> torch.Tensor:
    """Log-probability of every answer token (rows, ANSWER_TOKENS)."""
    logits = model(input_ids=torch.cat([prompts, answers], 1)).logits[:, prompts.shape[1] - 1 : -1]
    chosen: torch.Tensor = logits.log_softmax(-1).gather(-1, answers.unsqueeze(-1)).squeeze(-1)
    return chosen


def reinforce(model: Any, tokenizer: Tokenizer, recipe: Recipe) -> tuple[float, float]:
    """Policy-gradient updates in place; returns the mean reward on tasks kept apart, before and after."""
    pool = TaskPool(tokenizer, recipe.data_seed)
    draw = torch.Generator().manual_seed(recipe.seed + 900)
    stepper = Stepper(trainable(model, recipe), recipe)
    model.eval()
    before = mean_reward(model, tokenizer)
    for _ in range(recipe.steps):
        chosen, prompts = pool.draw(recipe.batch // GROUP)
        prompts = prompts.repeat_interleave(GROUP, 0)
        answers = sample(model, prompts, draw)
        groups = _rewards(pool, chosen, answers).view(-1, GROUP)
        advantage = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-3)).flatten()
        stepper.step(-(advantage.unsqueeze(1) * _log_probabilities(model, prompts, answers)).mean())
    return before, mean_reward(model, tokenizer)


def _rewards(pool: TaskPool, chosen: list[Task], answers: torch.Tensor) -> torch.Tensor:
    """Reward of each row of ``answers``; consecutive rows answer the same task in groups."""
    each = len(answers) // len(chosen)
    return torch.tensor([judge(text, chosen[i // each]) for i, text in enumerate(pool.decode(answers))])


def mean_reward(model: Any, tokenizer: Tokenizer) -> float:
    """Mean reward of four samples on each of 64 tasks that no recipe trains on."""
    pool = TaskPool(tokenizer, seed=77_777)
    chosen, prompts = pool.draw(64)
    answers = sample(model, prompts.repeat_interleave(4, 0), torch.Generator().manual_seed(5))
    return float(_rewards(pool, chosen, answers).mean())


def _corrupt(answer: str, draw: random.Random) -> str:
    digits = [i for i, c in enumerate(answer) if c.isdigit()]
    at = draw.choice(digits)
    return answer[:at] + draw.choice([d for d in "0123456789" if d != answer[at]]) + answer[at + 1 :]


def prefer(model: Any, reference: Any, tokenizer: Tokenizer, recipe: Recipe) -> tuple[float, float]:
    """DPO updates in place; returns the mean loss over the first and the last fifth of the steps."""
    pool = TaskPool(tokenizer, recipe.data_seed)
    draw = random.Random(recipe.seed + 901)
    stepper = Stepper(trainable(model, recipe), recipe)
    model.eval()
    reference.eval()
    history = []
    for _ in range(recipe.steps):
        chosen, prompts = pool.draw(recipe.batch)
        good = pool.answers([t.answer for t in chosen])
        bad = pool.answers([_corrupt(t.answer, draw) for t in chosen])
        both, doubled = torch.cat([good, bad]), torch.cat([prompts, prompts])
        with torch.no_grad():
            anchor = _log_probabilities(reference, doubled, both).sum(1)
        lift = _log_probabilities(model, doubled, both).sum(1) - anchor
        won, lost = lift.chunk(2)
        loss = -torch.nn.functional.logsigmoid(BETA * (won - lost)).mean()
        stepper.step(loss)
        history.append(float(loss.detach()))
    fifth = max(1, len(history) // 5)
    return sum(history[:fifth]) / fifth, sum(history[-fifth:]) / fifth
