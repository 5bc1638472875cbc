"""Attacks that need models beside the victim, stacks of several changes, and honest models in disguise."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gauntlet.attacks import blend, heads, noise, residual, stored, units, vocabulary
from benchmarks.gauntlet.attacks.catalogue import PRE_NORM, everything
from benchmarks.gauntlet.attacks.model import Attack, Draft, Need, Scene, Step
from benchmarks.gauntlet.attacks.naming import DECODERS, FAMILIES, LLAMA_TYPES
from fingerprint.compare.relation import Relation

_ONE = frozenset({Need.SIBLING})
_BASE = frozenset({Need.BASE})
_STRANGER = frozenset({Need.STRANGER})
_half = blend.graft(blend.lower_layers)


def blends() -> Iterator[Attack]:
    """Interpolation and amplification (copies); soups and grafts (not copies)."""
    for f in (0.05, 0.1, 0.3):
        step = blend.toward_base(f)
        yield Attack(f"interpolate-{f:g}", Relation.PERTURBED, (step,), FAMILIES, _BASE, strength=f, group="blend")
    for f in (1.1, 1.2):
        step = blend.amplified(f)
        yield Attack(f"amplify-{f:g}", Relation.PERTURBED, (step,), FAMILIES, _BASE, strength=f, group="blend")
    soups: tuple[tuple[str, Step, frozenset[Need]], ...] = (
        ("soup-2-equal", blend.soup(0.5, 0.5), _ONE),
        ("soup-2-unequal", blend.soup(0.7, 0.3), _ONE),
        ("soup-3-equal", blend.soup(1 / 3, 1 / 3, 1 / 3), frozenset({Need.TWO_SIBLINGS})),
        ("soup-3-unequal", blend.soup(0.5, 0.3, 0.2), frozenset({Need.TWO_SIBLINGS})),
        ("soup-slerp", blend.slerp(0.5), _ONE),
        ("soup-task-arithmetic", blend.task_arithmetic(0.8, 0.6), _ONE | _BASE),
    )
    for name, step, needs in soups:
        yield Attack(name, Relation.MERGED, (step,), FAMILIES, needs, group="merged")


def partials() -> Iterator[Attack]:
    """Some tensors or layers from the victim, others not."""
    for name, keep in (
        ("lower-half", blend.lower_layers),
        ("alternate", blend.alternate_layers),
        ("embeddings", blend.embeddings),
        ("one-layer", blend.one_layer),
        ("all-but-last", blend.all_but_one_layer),
    ):
        yield Attack(f"graft-{name}", Relation.PARTIAL, (blend.graft(keep),), FAMILIES, _STRANGER, group="partial")
    for which in ("first", "middle", "last"):
        yield Attack(f"drop-{which}", Relation.PARTIAL, (_drop(which),), FAMILIES, group="partial")


def _drop(which: str) -> Step:
    def step(draft: Draft, scene: Scene, rng: object) -> Draft:
        return vocabulary.drop_layers(draft, scene, rng, which=which)  # type: ignore[arg-type]

    return step


def stacks() -> Iterator[Attack]:
    """Three to five changes on top of one another."""

    def make(
        name: str, *steps: Step, families: frozenset[str] = FAMILIES, needs: frozenset[Need] = frozenset()
    ) -> Attack:
        return Attack(f"stack-{name}", Relation.PERTURBED, steps, families, needs, strength=len(steps), group="stack")

    g = noise.gaussian_noise
    n005, n01 = noise.everywhere(g(0.005), "noise:0.005"), noise.everywhere(g(0.01), "noise:0.01")
    int8 = noise.everywhere(noise.rowwise_int8, "quantised:int8")
    int4 = noise.somewhere(noise.grouped_int4(32), noise.outside_tables, "quantised:int4")
    prune = noise.somewhere(noise.pruned(0.1), noise.outside_tables, "pruned:0.1")
    adapter = noise.somewhere(noise.low_rank(8, 0.02), noise.outside_tables, "adapter:random:8")
    scale = noise.everywhere(noise.scaled(1.02), "scaled:1.02")
    rename, rotate = stored.rename("scramble"), residual.rotate
    heads_units: tuple[Step, ...] = (heads.permute_heads, units.permute_units)
    decoders = frozenset(DECODERS)

    yield make("rename-rotate-permute-noise", rotate, *heads_units, n005, rename, families=PRE_NORM)
    yield make("everything-int8", everything, int8, stored.reshard(3), families=PRE_NORM)
    yield make("fold-rotate-mix-scale-noise", rotate, heads.mix_values, units.scale_units, n01, families=decoders)
    yield make("interpolate-permute-reshard", blend.toward_base(0.1), *heads_units, stored.reshard(3), needs=_BASE)
    yield make("prune-permute-cast", prune, *heads_units, stored.cast("f32"))
    yield make("quantise-rename-reshard", int4, stored.rename("leaf"), stored.reshard(3))
    yield make("pad-split-noise", vocabulary.pad_vocabulary, units.split_units, n01)
    yield make("amplify-rotate-permute", blend.amplified(1.1), rotate, *heads_units, families=PRE_NORM, needs=_BASE)
    yield make("adapter-permute-rename", adapter, *heads_units, rename)
    yield make("scale-permute-noise", scale, *heads_units, n005)
    yield make("vocabulary-units-noise", vocabulary.permute_vocabulary, units.permute_units, n01)
    yield make("mix-queries-values-int8", heads.mix_queries, heads.mix_values, int8, rename)
    yield make("fuse-permute-noise", *heads_units, n005, stored.fuse, families=LLAMA_TYPES | {"gpt2", "bert"})
    yield make(
        "noise-identity-rotate", n005, vocabulary.add_identity_layers, rotate, units.permute_units, families=PRE_NORM
    )
    yield make("everything-noise-rename", everything, n01, stored.reshard(7), rename)
    for name, relation, needs, steps in (
        ("soup-permute-rename", Relation.MERGED, _ONE, (blend.soup(0.6, 0.4), *heads_units, rename)),
        ("soup-noise-reshard", Relation.MERGED, _ONE, (blend.soup(0.5, 0.5), n005, stored.reshard(3))),
        ("drop-noise-rename", Relation.PARTIAL, frozenset(), (_drop("last"), n005, stored.rename("leaf"))),
        ("graft-permute-cast", Relation.PARTIAL, _STRANGER, (_half, *heads_units, stored.cast("f32"))),
    ):
        yield Attack(f"stack-{name}", relation, steps, FAMILIES, needs, strength=len(steps), group="stack")


def controls() -> Iterator[Attack]:
    """Honest models in disguise: whoever flags these accuses somebody who learned something, or a stranger."""
    int8 = noise.everywhere(noise.rowwise_int8, "quantised:int8")
    prune = noise.somewhere(noise.pruned(0.1), noise.outside_tables, "pruned:0.1")
    disguises: tuple[tuple[str, tuple[Step, ...], frozenset[str]], ...] = (
        ("plain", (), FAMILIES),
        ("rename", (stored.rename("scramble"),), FAMILIES),
        ("reshard", (stored.reshard(3),), FAMILIES),
        ("cast", (stored.cast("f32"),), FAMILIES),
        ("permute", (heads.permute_heads, units.permute_units), FAMILIES),
        ("rotate", (residual.rotate,), PRE_NORM),
        ("fold", (residual.fold_norms,), PRE_NORM),
        ("everything", (everything,), FAMILIES),
        ("int8", (int8,), FAMILIES),
        ("prune", (prune,), FAMILIES),
    )
    for name, steps, families in disguises:
        for subject, relation, need in (
            ("child", Relation.DERIVED, Need.CHILD),
            ("sibling", Relation.SIBLING, Need.SIBLING),
            ("stranger", Relation.INDEPENDENT, Need.STRANGER),
        ):
            yield Attack(
                f"{subject}-{name}", relation, steps, families, frozenset({need}), subject=subject, group="control"
            )
