"""The attacks by name: what is done, what the truth about it is, and where it can be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import torch

from benchmarks.gauntlet.attacks import containers, heads, noise, residual, stored, units, vocabulary
from benchmarks.gauntlet.attacks.draft import family
from benchmarks.gauntlet.attacks.model import Attack, Draft, Proof, Scene, Step
from benchmarks.gauntlet.attacks.naming import DECODERS, FAMILIES, LLAMA_TYPES, MOE_TYPES
from fingerprint.compare.relation import Relation

PRE_NORM = FAMILIES - {"bert"}
_PLAIN = frozenset({"gpt2", "bert"})


def main_dtype(scene: Scene) -> torch.dtype:
    """The dtype most of the victim's tensors have."""
    return Counter(t.dtype for t in scene.victim.state.values()).most_common(1)[0][0]


def is_tied(scene: Scene) -> bool:
    """Whether the victim's head is its embedding."""
    return "lm_head.weight" not in scene.victim.state


def _unless(word: str) -> Callable[[Scene], bool]:
    return lambda scene: main_dtype(scene) != stored.DTYPES[word]


def identical() -> Iterator[Attack]:
    """The same values; names, files, container or dtype differ."""

    def make(name: str, *steps: Step, families: frozenset[str] = FAMILIES, **more: object) -> Attack:
        return Attack(name, Relation.IDENTICAL, steps, families, proof=Proof.VALUES, group="identical", **more)  # type: ignore[arg-type]

    yield make("reupload")
    yield make("reshard-3", stored.reshard(3))
    yield make("reshard-7", stored.reshard(7))
    yield make("header-edit", stored.store(metadata={"format": "pt", "author": "someone else", "note": "mine " * 40}))
    yield make("rename-prefix", stored.rename("prefix"))
    yield make("rename-leaf", stored.rename("leaf"))
    yield make("rename-number", stored.rename("number"))
    yield make("rename-scramble", stored.rename("scramble"))
    yield make("rename-scramble-no-config", stored.rename("scramble", config="drop"))
    yield make("rename-leaf-config-lies", stored.rename("leaf", config="lie"))
    yield make("cast-f32", stored.cast("f32"), when=_unless("f32"))
    yield make("cast-bf16", stored.cast("bf16"), when=_unless("bf16"))
    yield make("cast-f16", stored.cast("f16"), when=_unless("f16"))
    yield make("cast-f16-bf16", stored.cast("bf16", via="f16"))
    yield make("cast-f16-f32", stored.cast("f32", via="f16"))
    yield make("container-torch", stored.store("container:torch", container="torch"))
    yield make("container-torch-sharded", stored.store("container:torch", "resharded", container="torch", shards=3))
    gguf = frozenset(containers.GGUF_ARCH)
    for kind in ("bf16", "f32"):
        inside = stored.store("container:gguf", container=f"gguf-{kind}")
        yield make(f"container-gguf-{kind}", inside, stored.cast(kind), families=gguf)
    yield make("fuse", stored.fuse, families=LLAMA_TYPES | _PLAIN)
    yield make("pack-experts", stored.pack_experts, families=MOE_TYPES)
    yield make("untie", residual.untie, families=LLAMA_TYPES | {"gpt2"}, when=is_tied)
    yield make("extra-buffers", stored.add_buffers)
    yield make("extra-junk-0.2", stored.add_junk(0.2), accept=frozenset({Relation.EQUIVALENT}))
    yield make("reshard-rename-cast", stored.reshard(3), stored.rename("scramble"), stored.cast("f32"))


def symmetries() -> Iterator[Attack]:
    """Every row of the table of symmetries, alone, in the victim's dtype."""

    def make(name: str, *steps: Step, families: frozenset[str], proof: Proof = Proof.LOGITS) -> Attack:
        return Attack(name, Relation.EQUIVALENT, steps, families, proof=proof, group="symmetry")

    yield make("fold", residual.fold_norms, families=PRE_NORM)
    yield make("rotate", residual.rotate, families=PRE_NORM)
    yield make("permute-residual", residual.permute_residual, families=PRE_NORM)
    yield make("permute-residual-bert", residual.permute_residual, families=frozenset({"bert"}), proof=Proof.HIDDEN)
    yield make("fake-gains", residual.regain_norms, families=PRE_NORM)
    yield make("rotate-fake-gains", residual.rotate, residual.regain_norms, families=PRE_NORM)
    yield make("scale-residual", residual.scale_residual, families=PRE_NORM)
    yield make("centre", residual.untie, residual.centre, families=frozenset({"gpt2"}))
    yield make("mix-values", heads.mix_values, families=FAMILIES)
    yield make("mix-queries", heads.mix_queries, families=FAMILIES)
    yield make("permute-heads", heads.permute_heads, families=FAMILIES)
    yield make("shift-biases", heads.shift_biases, families=_PLAIN)
    yield make("attention-all", heads.mix_values, heads.mix_queries, heads.permute_heads, families=FAMILIES)
    yield make("permute-units", units.permute_units, families=FAMILIES)
    yield make("scale-units", units.scale_units, families=frozenset(DECODERS))
    yield make("permute-scale-units", units.permute_units, units.scale_units, families=frozenset(DECODERS))
    yield make("split-units", units.split_units, families=FAMILIES)
    yield make("split-permute-units", units.split_units, units.permute_units, families=FAMILIES)
    yield make("permute-experts", units.permute_experts, families=MOE_TYPES)
    yield make("permute-experts-units", units.permute_experts, units.permute_units, families=MOE_TYPES)
    yield make("pad-vocabulary", vocabulary.pad_vocabulary, families=FAMILIES)
    yield make("permute-vocabulary", vocabulary.permute_vocabulary, families=FAMILIES)
    yield make("shift-head", vocabulary.shift_head, families=PRE_NORM, proof=Proof.PROBABILITIES)
    yield make("identity-layers", vocabulary.add_identity_layers, families=PRE_NORM)
    yield make("identity-layers-middle", _identity_in_the_middle, families=PRE_NORM)
    yield make("everything", everything, families=PRE_NORM, proof=Proof.PROBABILITIES)
    yield make("everything-bert", everything, families=frozenset({"bert"}), proof=Proof.HIDDEN)
    for name, step in (("rotate", residual.rotate), ("everything", everything)):
        yield make(f"{name}-f32", step, stored.cast("f32"), families=PRE_NORM, proof=Proof.PROBABILITIES)


def _identity_in_the_middle(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    return vocabulary.add_identity_layers(draft, scene, rng, at=0.5)


def everything(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Every symmetry the family has, one after another."""
    kind = family(draft)
    steps: list[Step] = [heads.mix_values, heads.mix_queries, heads.permute_heads, units.permute_units]
    if kind in _PLAIN:
        steps.append(heads.shift_biases)
    if kind in DECODERS:
        steps.append(units.scale_units)
    if kind in MOE_TYPES:
        steps.append(units.permute_experts)
    if kind == "bert":
        steps.append(residual.permute_residual)
    else:
        steps += [residual.rotate, residual.regain_norms, residual.permute_residual, residual.scale_residual]
        steps += [vocabulary.shift_head]
    steps += [units.split_units, vocabulary.pad_vocabulary]
    for step in steps:
        draft = step(draft, scene, rng)
    return draft


def changes() -> Iterator[Attack]:
    """Changes that carry no learning, at several strengths."""

    def make(name: str, strength: float, *steps: Step, families: frozenset[str] = FAMILIES) -> Attack:
        return Attack(name, Relation.PERTURBED, steps, families, strength=strength, group=name.split("-")[0])

    g, word = noise.gaussian_noise, "noise:{:g}".format
    for s in (0.001, 0.005, 0.01, 0.05, 0.1, 0.2):
        yield make(f"noise-{s:g}", s, noise.everywhere(g(s), word(s)))
    for where, chosen in (
        ("attention", noise.in_attention),
        ("mlp", noise.in_mlp),
        ("embeddings", noise.in_tables),
        ("upper-layers", noise.upper_half),
        ("odd-layers", noise.every_second),
        ("one-layer", noise.in_one_layer),
    ):
        yield make(f"noise-{where}-0.02", 0.02, noise.somewhere(g(0.02), chosen, word(0.02)))
    for s in (0.01, 0.05):
        yield make(f"noise-uneven-{s:g}", s, noise.everywhere(noise.uneven_noise(s), word(s)))
    yield make("noise-vectors-0.01", 0.01, noise.vector_noise(0.01))
    yield make("quantise-int8-row", 8, noise.everywhere(noise.rowwise_int8, "quantised:int8"))
    yield make("quantise-int8-tensor", 8, noise.everywhere(noise.tensor_int8, "quantised:int8"))
    for group in (32, 128):
        step = noise.somewhere(noise.grouped_int4(group), noise.outside_tables, "quantised:int4")
        yield make(f"quantise-int4-{group}", 4, step)
    yield make("quantise-nf4", 4, noise.somewhere(noise.nf4, noise.outside_tables, "quantised:nf4"))
    yield make("quantise-fp8", 8, noise.everywhere(noise.fp8, "quantised:fp8"))
    for kind, bits in (("q8_0", "int8"), ("q4_0", "int4")):
        step = stored.store("container:gguf", f"quantised:{bits}", container=f"gguf-{kind}")
        yield make(f"quantise-gguf-{kind}", int(bits[3:]), step, families=frozenset(containers.GGUF_ARCH))
    for scheme in ("gptq", "awq"):
        step = stored.store(f"container:{scheme}", "quantised:int4", container=scheme)
        yield make(f"quantise-{scheme}", 4, step, families=containers.PACKED_FAMILIES)
    for f in (0.05, 0.1, 0.3):
        yield make(f"prune-{f:g}", f, noise.somewhere(noise.pruned(f), noise.outside_tables, f"pruned:{f:g}"))
    for f in (1.01, 1.05):
        yield make(f"scale-{f:g}", f, noise.everywhere(noise.scaled(f), f"scaled:{f:g}"))
    yield make("scale-random-0.03", 0.03, noise.everywhere(noise.scaled_near(0.03), "scaled:1.03"))
    yield make("scale-logits-1.05", 1.05, noise.scale_logits(1.05), families=PRE_NORM)
    for rank, relative in ((4, 0.005), (8, 0.02), (16, 0.05)):
        step = noise.somewhere(noise.low_rank(rank, relative), noise.outside_tables, f"adapter:random:{rank}")
        yield make(f"adapter-random-{rank}-{relative:g}", relative, step)
    guided = noise.somewhere(noise.guided_low_rank(8, 0.02), noise.outside_tables, "adapter:random:8")
    yield make("adapter-guided-8-0.02", 0.02, guided)
    for f in (0.01, 0.1):
        yield make(f"sparse-{f:g}", f, noise.everywhere(noise.sparse_noise(f, 0.05), f"sparse-noise:{f:g}"))
    yield make("ulps-0.1", 0.1, noise.flip_ulps(0.1))
