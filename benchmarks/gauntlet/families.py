"""Families of honest models: their table, where each lies, and building what is missing.

    build(("qwen3",), "test", print)
    load_family("qwen3", "test").models["rl"].path

``calibration`` and ``test`` are disjoint: other shapes, vocabularies, seeds and data draws. ``quick`` is small enough
for CI.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM

from benchmarks.gauntlet import cache, corpus, minilm, recipes, reward, shapes, tokenizer, train
from benchmarks.gauntlet.recipes import Recipe

Split = Literal["test", "calibration", "quick"]
SPLITS: tuple[Split, ...] = ("test", "calibration", "quick")
Progress = Callable[[str], None]

FLOAT32_FAMILIES = frozenset({"gpt2"})
QUICK_FAMILIES = ("qwen3", "gpt2")


@dataclass(frozen=True)
class ModelEntry:
    """One honest model on disk.

    Attributes:
        path: Folder with ``model.safetensors``, ``config.json``, ``tokenizer.json`` and ``meta.json``.
        family: Family name.
        split: ``test``, ``calibration`` or ``quick``.
        name: Name within the family.
        base: Name of the pretrained root it descends from (itself for a root).
        parents: Names it was directly made from, in weights (none for a root; a student's teacher is not a parent).
        kind: Kind of honest relation, for tables.
        domain: Domains it was trained on.
        seed: Seed of initialisation, sampling and adapters.
        dtype: Stored dtype.
        loss: Held-out loss in nats on its own domains.
    """

    path: Path
    family: str
    split: str
    name: str
    base: str
    parents: tuple[str, ...]
    kind: str
    domain: str
    seed: int
    dtype: str
    loss: float


@dataclass(frozen=True)
class Family:
    """The models of a family that are ready, by name in recipe order."""

    name: str
    split: str
    models: Mapping[str, ModelEntry]


def names(split: Split = "test") -> tuple[str, ...]:
    """Families of a split; the real MiniLM family has no second base and is only in ``test``."""
    if split == "quick":
        return QUICK_FAMILIES
    trained = tuple(shapes.BUILDERS)
    return (*trained, minilm.FAMILY) if split == "test" else trained


def table(name: str, split: Split) -> tuple[Recipe, ...]:
    """The recipes of a family in an order in which every parent comes before its children."""
    if name == minilm.FAMILY:
        return minilm.RECIPES
    rows = {"test": recipes.TEST, "calibration": recipes.CALIBRATION, "quick": recipes.QUICK}[split]
    return recipes.published_in_float32(rows) if name in FLOAT32_FAMILIES else rows


def load_family(name: str, split: Split = "test") -> Family:
    """What is in the cache of this family now: whole models of today's recipes only."""
    rows = table(name, split)
    folder = cache.root() / split / name
    models = {}
    for recipe in rows:
        meta = cache.read_meta(folder / recipe.name)
        if meta is not None and meta["recipe"] == _lineage_digest(recipe, rows):
            models[recipe.name] = _entry(folder / recipe.name, meta)
    return Family(name, split, models)


def build(names: Sequence[str], split: Split = "test", progress: Progress = lambda line: None) -> None:
    """Make every model of these families that is missing or stale; single-threaded, resumable."""
    torch.set_num_threads(1)
    for name in names:
        with cache.lock(cache.root() / split / name):
            _build_family(name, split, progress)


def _build_family(name: str, split: Split, progress: Progress) -> None:
    rows = table(name, split)
    ready = set(load_family(name, split).models)
    for recipe in rows:
        if recipe.name in ready:
            continue
        started = time.monotonic()
        folder = cache.root() / split / name / recipe.name
        with cache.whole(folder) as draft:
            made = _make(name, split, recipe, draft)
            cache.write_meta(draft, _meta(name, split, recipe, rows) | made)
        seconds = time.monotonic() - started
        progress(f"{split}/{name}/{recipe.name}: loss {made['loss']:.3f} in {seconds:.0f} s {made.get('progress', '')}")


def _make(name: str, split: Split, recipe: Recipe, draft: Path) -> dict[str, Any]:
    """Train one model into ``draft``; returns what was measured."""
    folder = cache.root() / split / name
    if name == minilm.FAMILY:
        return minilm.make(recipe, folder, draft)
    size = shapes.SIZES[split]
    words = tokenizer.at(cache.root() / f"tokenizer-{size.vocabulary}-{corpus.digest()[:8]}.json", size.vocabulary)
    model = open_model(folder / recipe.parent) if recipe.parent else shapes.fresh(name, size, recipe.seed)
    stream = corpus.TokenStream(words)
    measured: dict[str, Any] = {}
    torch.manual_seed(recipe.seed)
    if recipe.method == "lora":
        train.learn_adapter(model, stream, recipe)
    elif recipe.method == "distil":
        train.distil(model, open_model(folder / str(recipe.teacher)), stream, recipe)
    elif recipe.method == "reward":
        measured["progress"] = reward.reinforce(model, words, recipe)
    elif recipe.method == "preference":
        measured["progress"] = reward.prefer(model, open_model(folder / str(recipe.parent)), words, recipe)
    else:
        train.learn(model, stream, recipe)
    measured["loss"] = train.held_out(model, stream, recipe)
    model.to(getattr(torch, recipe.dtype)).save_pretrained(draft)
    words.save(str(draft / "tokenizer.json"))
    return measured


def open_model(path: Path) -> Any:
    """A stored model in float32."""
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)


def _lineage_digest(recipe: Recipe, rows: Sequence[Recipe]) -> str:
    """Digest of a recipe and of all it stands on, so that a changed base makes its descendants stale."""
    by_name = {r.name: r for r in rows}
    behind = [by_name[n] for n in (recipe.parent, recipe.teacher) if n]
    return hashlib.sha256("|".join([recipe.digest, *(_lineage_digest(r, rows) for r in behind)]).encode()).hexdigest()


def _meta(name: str, split: Split, recipe: Recipe, rows: Sequence[Recipe]) -> dict[str, Any]:
    by_name = {r.name: r for r in rows}
    root = recipe
    while root.parent:
        root = by_name[root.parent]
    return {
        "family": name,
        "split": split,
        "name": recipe.name,
        "base": root.name,
        "parents": [recipe.parent] if recipe.parent else [],
        "teacher": recipe.teacher,
        "kind": recipe.kind,
        "domain": "+".join(sorted(recipe.mix)),
        "seed": recipe.seed,
        "dtype": recipe.dtype,
        "recipe": _lineage_digest(recipe, rows),
        "corpus": corpus.digest(),
    }


def _entry(path: Path, meta: Mapping[str, Any]) -> ModelEntry:
    return ModelEntry(
        path=path,
        family=meta["family"],
        split=meta["split"],
        name=meta["name"],
        base=meta["base"],
        parents=tuple(meta["parents"]),
        kind=meta["kind"],
        domain=meta["domain"],
        seed=meta["seed"],
        dtype=meta["dtype"],
        loss=meta["loss"],
    )
