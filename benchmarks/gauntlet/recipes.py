"""What each family holds: how every honest model is made, and from which.

A row of this table is a *kind of honest relation* that a copy detector must not call a copy: other seeds on the same
data in the same order (hard negatives), fine-tunes on the same data in another order (hard siblings), updates so light
that bf16 hardly records them, improvements of a champion by a continued fine-tune or by reward.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Method = Literal["pretrain", "finetune", "lora", "reward", "preference", "distil", "contrastive", "masked", "fetched"]
Trainable = Literal["all", "attention", "last", "norms", "no-embeddings"]

VERSION = 1
"""Raised when training changes in a way that the recipes do not show; old caches are then rebuilt."""

BASE = {"english": 0.42, "code": 0.42, "lists": 0.16}
OTHER = {"packages": 0.5, "unicode": 0.4, "english": 0.1}
A = {"lists": 1.0}
B = {"packages": 1.0}
C = {"unicode": 1.0}


@dataclass(frozen=True)
class Recipe:
    """How one model is made.

    Attributes:
        name: Name within the family.
        kind: Kind of honest relation to its parent, for tables.
        method: Training method.
        parent: Model it starts from; None for its own initialisation.
        teacher: Model whose outputs it learns from (distillation): a tie that leaves no trace in weights.
        mix: Domain to share.
        steps: Optimiser steps.
        batch: Examples of 64 tokens per step.
        rate: Peak learning rate.
        weight_decay: Decoupled weight decay.
        seed: Initialisation, sampling and adapters.
        data_seed: Which examples.
        order_seed: In which order.
        trainable: Which parameters move.
        rank: Adapter rank (``lora``).
        dtype: Stored dtype, ``bfloat16`` or ``float32``.
        grid: Weights are rounded to bf16 after every step, as in training without a float32 master copy.
    """

    name: str
    kind: str
    method: Method
    parent: str | None = None
    teacher: str | None = None
    mix: Mapping[str, float] = field(default_factory=lambda: dict(BASE))
    steps: int = 100
    batch: int = 8
    rate: float = 1e-3
    weight_decay: float = 0.0
    seed: int = 0
    data_seed: int = 100
    order_seed: int = 0
    trainable: Trainable = "all"
    rank: int = 0
    dtype: str = "bfloat16"
    grid: bool = False

    @property
    def digest(self) -> str:
        """Short digest of everything above: a cached model made another way is stale."""
        return hashlib.sha256(f"{VERSION}|{self!r}".encode()).hexdigest()[:16]


def _base(name: str, seed: int, **other: object) -> Recipe:
    recipe = Recipe(name, "base", "pretrain", steps=400, batch=14, rate=3e-3, weight_decay=0.1, seed=seed, data_seed=1)
    return replace(recipe, **other)  # type: ignore[arg-type]


_FT = Recipe("ft-a", "fine-tune", "finetune", parent="base-s0", mix=A, steps=90, rate=6e-4)
_RL = Recipe("rl", "reward", "reward", parent="base-s0", mix=A, steps=60, batch=48, rate=3e-5, data_seed=300, grid=True)

TEST: tuple[Recipe, ...] = (
    _base("base-s0", 11),
    _FT,
    replace(_FT, name="ft-b", mix=B),
    _RL,
    replace(_FT, name="lora-a", kind="adapter", method="lora", rank=8, rate=4e-3),
    replace(_FT, name="ft-a-cont", kind="continued", parent="ft-a", data_seed=101, rate=3e-4, steps=60),
    replace(_RL, name="rl-from-ft-a", parent="ft-a", seed=2),
    _base("base-s1", 12, kind="other seed"),
    replace(_FT, name="ft-a-order2", order_seed=1),
    replace(_FT, name="ft-light", kind="light fine-tune", mix=B, rate=3e-5, steps=60),
    replace(_FT, name="lora-light", kind="light adapter", method="lora", rank=4, rate=5e-4, steps=30, mix=B),
    replace(_RL, name="rl-seed2", seed=1, data_seed=301),
    replace(_RL, name="dpo", kind="preference", method="preference", parent="ft-a", steps=40, batch=8, rate=3e-5),
    replace(_FT, name="part-attention", kind="partly trained", mix=B, trainable="attention"),
    replace(_FT, name="part-last", kind="partly trained", trainable="last"),
    replace(_FT, name="part-norms", kind="partly trained", trainable="norms", rate=3e-3),
    replace(_FT, name="part-no-embeddings", kind="partly trained", mix=B, trainable="no-embeddings"),
    replace(_FT, name="ft-ab", kind="long fine-tune", mix={**A, **B}, steps=160, dtype="float32"),
    replace(_FT, name="ft-a-data2", data_seed=102),
    replace(_FT, name="ft-c-decay", mix=C, weight_decay=1.0),
    replace(_FT, name="ft-a-cont-c", kind="continued", parent="ft-a", mix=C, data_seed=103),
    replace(_FT, name="s1-ft-a", parent="base-s1"),
    replace(_RL, name="s1-rl", parent="base-s1"),
    replace(_RL, name="rl-master", grid=False, rate=1e-5, seed=3, data_seed=302),
    replace(_base("student", 21), kind="distilled", method="distil", teacher="base-s0", steps=260, data_seed=2),
    _base("base-s2", 13, kind="other data", mix=OTHER, data_seed=3),
)

_CALIBRATION = (
    "base-s0", "base-s1", "ft-a", "ft-a-order2", "ft-b", "ft-light", "lora-a", "lora-light", "rl", "rl-seed2",
    "rl-from-ft-a", "ft-a-cont", "part-last", "part-attention", "part-norms", "s1-ft-a", "student",
)  # fmt: skip
_NORMS = replace(_FT, kind="partly trained", trainable="norms")
_MORE_NORMS = (
    replace(_NORMS, name="part-norms-b", mix=B, rate=3e-3),
    replace(_NORMS, name="part-norms-light", mix=A, rate=1e-3, data_seed=104),
    replace(_NORMS, name="part-norms-ft", parent="ft-a", mix=C, rate=2e-3, data_seed=105),
)
"""Few numbers change where norms alone are trained: more of such models, for a tail that is worth anything."""
CALIBRATION: tuple[Recipe, ...] = tuple(
    replace(r, seed=r.seed + 1000, data_seed=r.data_seed + 1000, order_seed=r.order_seed + 1000)
    for r in (*(r for r in TEST if r.name in _CALIBRATION), *_MORE_NORMS)
)

_QUICK = ("base-s0", "base-s1", "ft-a", "ft-a-order2", "ft-b", "rl", "lora-a", "ft-a-cont")
QUICK: tuple[Recipe, ...] = tuple(
    replace(r, seed=r.seed + 2000, data_seed=r.data_seed + 2000, steps=max(12, r.steps // 3))
    for r in TEST
    if r.name in _QUICK
)


def published_in_float32(recipes: tuple[Recipe, ...]) -> tuple[Recipe, ...]:
    """The same table for a family that publishes float32 (GPT-2): no bf16 grid, except where a child is cast to it."""
    cast = {"rl-seed2", "ft-light"}
    return tuple(replace(r, dtype="bfloat16" if r.name in cast else "float32", grid=False) for r in recipes)
