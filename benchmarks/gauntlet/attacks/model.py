"""What an attack takes and gives: a model in memory, the scene around it, and the truth about what was done.

Attacks are written against names and shapes of transformers' saved state dicts and share no code with the tool that
must see through them; only the vocabulary (``Relation``, ``Role``, ``Slot``) is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch

from fingerprint.architecture.interface import Slot
from fingerprint.compare.relation import Relation


@dataclass(frozen=True)
class Storage:
    """How a model is laid on disk; nothing here changes a value except ``dtype``.

    Attributes:
        shards: Number of weight files.
        container: ``safetensors``, ``torch`` (a zip of pickled tensors), ``gguf-<type>``, or int4 packed into
            safetensors as ``gptq`` or ``awq`` do.
        dtype: dtype to cast every floating tensor to; None keeps each tensor's own.
        via: dtype every floating tensor is rounded through before ``dtype`` (bf16 -> f16 -> bf16).
        names: Renaming scheme (``naming.SCHEMES``); empty keeps transformers' names.
        fused: ``join`` glues q/k/v and gate/up together, ``split`` cuts GPT-2's fused projection apart; empty leaves.
        packed: Experts stacked into one tensor, as transformers 5 holds them in memory.
        prefix: What stands before every name of the body (``transformer.``, ``bert.``).
        metadata: The safetensors header's free text.
        config: ``keep``, ``drop`` (no config.json) or ``lie`` (another family, other sizes).
        extra: Tensors added that no forward pass reads.
    """

    shards: int = 1
    container: str = "safetensors"
    dtype: torch.dtype | None = None
    via: torch.dtype | None = None
    names: str = ""
    fused: str = ""
    packed: bool = False
    prefix: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: {"format": "pt"})
    config: str = "keep"
    extra: Mapping[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A checkpoint in memory.

    Attributes:
        state: Name to tensor, as stored.
        config: Parsed config.json.
        tokenizer: Parsed tokenizer.json, where there is one.
        vocab: Lines of vocab.txt, where there is one.
        storage: How to write it.
    """

    state: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]
    tokenizer: Mapping[str, Any] | None = None
    vocab: tuple[str, ...] | None = None
    storage: Storage = field(default_factory=Storage)


class Need(StrEnum):
    """What must stand beside the victim for an attack to be made."""

    BASE = "base"
    SIBLING = "sibling"
    TWO_SIBLINGS = "two siblings"
    CHILD = "child"
    STRANGER = "stranger"


@dataclass(frozen=True)
class Scene:
    """The victim and those around it; all of one shape.

    Attributes:
        victim: The model whose copy is made.
        base: What the victim was fine-tuned from.
        siblings: Other fine-tunes of the same base.
        child: An honest continued fine-tune of the victim.
        stranger: An independently trained model of the victim's shape.
    """

    victim: Model
    base: Model | None = None
    siblings: tuple[Model, ...] = ()
    child: Model | None = None
    stranger: Model | None = None

    def has(self, need: Need) -> bool:
        """Whether the scene offers ``need``."""
        return {
            Need.BASE: self.base is not None,
            Need.SIBLING: len(self.siblings) >= 1,
            Need.TWO_SIBLINGS: len(self.siblings) >= 2,
            Need.CHILD: self.child is not None,
            Need.STRANGER: self.stranger is not None,
        }[need]


@dataclass(frozen=True)
class Draft:
    """A model taken apart by what its tensors do, while it is being changed.

    Matrices are float64 and (out x in) whatever the family stores. Every step takes a draft and returns a new one.

    Attributes:
        tensors: Slot to float64 tensor.
        dtypes: Slot to the dtype it is stored in; ``dtype`` for slots that are new.
        dtype: The victim's main dtype.
        rest: Tensors that have no role (buffers), by name; never changed.
        config: config.json.
        tokenizer: tokenizer.json.
        vocab: vocab.txt.
        storage: How it will be written.
        transforms: The contract's words for what was done so far.
        token_map: Old token id to new (vocabulary permuted), int64; None when ids are unchanged.
        output_map: Position of each old output feature among the new (hidden states permuted); None when unchanged.
        weights: Share of each model of the scene in a linear mixture (``victim``, ``base``, ``sibling0``).
        kept: Fraction of parameters that still come from the victim.
    """

    tensors: Mapping[Slot, torch.Tensor]
    dtypes: Mapping[Slot, torch.dtype]
    dtype: torch.dtype
    rest: Mapping[str, torch.Tensor]
    config: Mapping[str, Any]
    tokenizer: Mapping[str, Any] | None
    vocab: tuple[str, ...] | None
    storage: Storage
    transforms: tuple[str, ...] = ()
    token_map: torch.Tensor | None = None
    output_map: torch.Tensor | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    kept: float = 1.0


Step = Callable[[Draft, Scene, torch.Generator], Draft]


class Proof(StrEnum):
    """How a test shows that the function was kept."""

    NONE = "none"  # the function changed, by design
    VALUES = "values"  # same values under other names, files or dtypes
    LOGITS = "logits"
    PROBABILITIES = "probabilities"
    HIDDEN = "hidden"  # hidden states up to a permutation of features (BERT)


@dataclass(frozen=True)
class Attacked:
    """An attacked model and the truth about it.

    Attributes:
        model: What is uploaded.
        relation: What it is to the victim.
        transforms: What was done, in the contract's words.
        weights: Shares of the scene's models in a mixture.
        token_map: Old token id to new.
        output_map: Where old output features went.
        kept: Fraction of parameters that still come from the victim.
    """

    model: Model
    relation: Relation
    transforms: tuple[str, ...]
    weights: Mapping[str, float]
    token_map: torch.Tensor | None
    output_map: torch.Tensor | None
    kept: float


@dataclass(frozen=True)
class Attack:
    """A named way to disguise a model.

    Attributes:
        name: Unique, e.g. ``noise-0.01``.
        relation: What the result is to the victim.
        steps: Applied in order.
        families: ``model_type`` values it can be applied to.
        needs: What the scene must offer.
        proof: How the function is shown to be kept.
        strength: Size of the change, 0 where there is none.
        subject: Whose model is disguised: ``victim``, or for controls ``child``, ``sibling`` or ``stranger``.
        group: Kind for tables (``identical``, ``symmetry``, ``noise``, ``stack``, ``control``...).
        accept: Relations that are as right as ``relation`` (where the definitions overlap).
        when: A further condition on the scene (a tied head, another dtype).
    """

    name: str
    relation: Relation
    steps: tuple[Step, ...]
    families: frozenset[str]
    needs: frozenset[Need] = frozenset()
    proof: Proof = Proof.NONE
    strength: float = 0.0
    subject: str = "victim"
    group: str = ""
    accept: frozenset[Relation] = frozenset()
    when: Callable[[Scene], bool] = lambda scene: True

    @property
    def copy(self) -> bool:
        """Whether the result is of the copy class."""
        return self.relation.copy

    def applies(self, scene: Scene) -> bool:
        """Whether family and scene allow it."""
        kind = scene.victim.config["model_type"]
        return kind in self.families and all(scene.has(n) for n in self.needs) and self.when(scene)
