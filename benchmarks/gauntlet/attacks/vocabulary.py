"""Changes of vocabulary and depth that keep the function: padded or permuted rows, shifted head, identity layers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from benchmarks.gauntlet.attacks.draft import change, size
from benchmarks.gauntlet.attacks.model import Draft, Scene
from benchmarks.gauntlet.attacks.residual import WRITES, WRITES_BIAS, gaussian, permutation, untie
from fingerprint.architecture.interface import Role, Slot

_ID_KEYS = ("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id")


def pad_vocabulary(draft: Draft, scene: Scene, rng: torch.Generator, multiple: int = 64) -> Draft:
    """Rows appended up to the next but one multiple of ``multiple``: small noise about the mean row."""
    rows = size(draft, "vocab_size")
    wanted = (rows // multiple + 2) * multiple
    new: dict[Slot, torch.Tensor] = {}
    for slot in (Slot(Role.EMBED), Slot(Role.HEAD), Slot(Role.HEAD_BIAS)):
        if slot in draft.tensors:
            table = draft.tensors[slot]
            noise = gaussian(rng, wanted - rows, *table.shape[1:]) * table.std() * 0.1
            new[slot] = torch.cat([table, table.mean(dim=0, keepdim=True) + noise])
    return change(draft, new, "padded:vocabulary", vocab_size=wanted)


def permute_vocabulary(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Permute token ids, in the tables and in the tokenizer that goes with them."""
    rows = size(draft, "vocab_size")
    order = permutation(rng, rows)  # new row i is old row order[i]
    into = torch.argsort(order)  # old id -> new id
    new = {
        slot: draft.tensors[slot][order]
        for slot in (Slot(Role.EMBED), Slot(Role.HEAD), Slot(Role.HEAD_BIAS))
        if slot in draft.tensors
    }
    ids = {k: _renumber(draft.config[k], into) for k in _ID_KEYS if draft.config.get(k) is not None}
    out = change(draft, new, "permuted:vocabulary", **ids)
    token_map = into if draft.token_map is None else into[draft.token_map]
    vocab = None
    if draft.vocab is not None:
        lines = [*draft.vocab, *(f"[pad{i}]" for i in range(len(draft.vocab), rows))]
        vocab = tuple(lines[int(i)] for i in order)
    tokenizer = None if draft.tokenizer is None else renumber_tokenizer(draft.tokenizer, into)
    return replace(out, token_map=token_map, tokenizer=tokenizer, vocab=vocab)


def _renumber(value: int | list[int], into: torch.Tensor) -> int | list[int]:
    if isinstance(value, list):
        return [int(into[v]) for v in value]
    return int(into[value]) if 0 <= value < len(into) else value


def renumber_tokenizer(tokenizer: Mapping[str, Any], into: torch.Tensor) -> dict[str, Any]:
    """tokenizer.json with every id sent through ``into`` (old id -> new id)."""
    out = copy.deepcopy(dict(tokenizer))
    model = out.get("model", {})
    if isinstance(model.get("vocab"), dict):
        model["vocab"] = {token: int(into[i]) for token, i in model["vocab"].items()}
    elif isinstance(model.get("vocab"), list):  # Unigram: position is the id
        moved = sorted(enumerate(model["vocab"]), key=lambda pair: int(into[pair[0]]))
        model["vocab"] = [entry for _, entry in moved]
        if model.get("unk_id") is not None:
            model["unk_id"] = int(into[model["unk_id"]])
    for token in out.get("added_tokens", []):
        token["id"] = int(into[token["id"]])
    if isinstance(out.get("padding"), dict):
        out["padding"]["pad_id"] = int(into[out["padding"]["pad_id"]])
    _renumber_processor(out.get("post_processor"), into)
    return out


def _renumber_processor(node: object, into: torch.Tensor) -> None:
    """Special tokens in post-processors: ``ids`` lists (templates), ``sep``/``cls`` pairs (Bert, Roberta)."""
    if isinstance(node, list):
        for item in node:
            _renumber_processor(item, into)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "ids":
            node[key] = [int(into[i]) for i in value]
        elif key in ("sep", "cls") and isinstance(value, list):
            node[key] = [value[0], int(into[value[1]])]
        else:
            _renumber_processor(value, into)


def shift_head(draft: Draft, scene: Scene, rng: torch.Generator) -> Draft:
    """Head + 1 c^T: every logit moves by the same c . h, probabilities stay."""
    out = untie(draft, scene, rng)
    head = out.tensors[Slot(Role.HEAD)]
    shift = gaussian(rng, head.shape[1]) * head.std()
    return change(out, {Slot(Role.HEAD): head + shift}, "shifted:head")


def add_identity_layers(
    draft: Draft, scene: Scene, rng: torch.Generator, count: int = 1, at: float | None = None
) -> Draft:
    """``count`` layers that write nothing, appended (or put in at depth ``at`` in [0, 1]); pre-norm families only.

    Their readers are a neighbour's with 5% noise, so that they look alive.
    """
    layers = size(draft, "num_hidden_layers")
    place = layers if at is None else round(at * layers)
    source = min(place, layers - 1)
    tensors = {_moved(slot, place, count): value for slot, value in draft.tensors.items()}
    dtypes = {_moved(slot, place, count): value for slot, value in draft.dtypes.items()}
    for slot, value in draft.tensors.items():
        if slot.layer != source:
            continue
        for i in range(count):
            twin = slot._replace(layer=place + i)
            silent = slot.role in WRITES or slot.role in WRITES_BIAS
            noise = gaussian(rng, *value.shape) * value.std(correction=0) * 0.05
            tensors[twin] = torch.zeros_like(value) if silent else value + noise
            dtypes[twin] = draft.dtypes.get(slot, draft.dtype)
    config: dict[str, Any] = {"num_hidden_layers": layers + count}
    if isinstance(draft.config.get("layer_types"), list):
        kinds = list(draft.config["layer_types"])
        config["layer_types"] = kinds[:place] + [kinds[source]] * count + kinds[place:]
    out = change(replace(draft, tensors={}, dtypes={}), tensors, "appended:identity-layers", **config)
    return replace(out, dtypes=dtypes)


def drop_layers(draft: Draft, scene: Scene, rng: torch.Generator, which: str = "last", count: int = 1) -> Draft:
    """Leave out ``count`` layers: the first, the last or those in the middle. The function changes."""
    layers = size(draft, "num_hidden_layers")
    start = {"first": 0, "last": layers - count, "middle": (layers - count) // 2}[which]
    gone = range(start, start + count)
    total = sum(v.numel() for v in draft.tensors.values())
    stay = {s: _moved(s, start + count, -count) for s in draft.tensors if s.layer not in gone}
    tensors = {into: draft.tensors[s] for s, into in stay.items()}
    dtypes = {into: draft.dtypes.get(s, draft.dtype) for s, into in stay.items()}
    config: dict[str, Any] = {"num_hidden_layers": layers - count}
    if isinstance(draft.config.get("layer_types"), list):
        config["layer_types"] = [k for i, k in enumerate(draft.config["layer_types"]) if i not in gone]
    out = change(replace(draft, tensors={}, dtypes={}), tensors, "dropped:layers", **config)
    kept = sum(v.numel() for v in tensors.values()) / total
    return replace(out, dtypes=dtypes, kept=draft.kept * kept)


def _moved(slot: Slot, place: int, by: int) -> Slot:
    """Layers from ``place`` on, renumbered."""
    return slot._replace(layer=slot.layer + by) if slot.layer >= place else slot
