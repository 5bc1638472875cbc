"""Aligning, in order: rows of the vocabulary, basis of the residual stream, layers, experts, units, heads, gains.

Every step first asks whether anything needs undoing at all; an honest fine-tune passes through with nothing undone
and its delta as it was trained. Steps that could swallow part of a learned change need two separate estimates of one
parameter that agree (units, mixings, query-key pairs, gains), or rows they were not fitted on (rotation).
"""

from __future__ import annotations

from dataclasses import replace

from fingerprint.architecture.interface import Layout, Positions, Role

from .alignment import Alignment, Witness
from .basis import provisional_scale, refine, scale_back, settle_scale, small_turn, undo_basis, without_basis
from .biases import align_biases
from .experts import align_experts, unify_experts
from .flat import GENERIC, flat
from .generic import pair_generic
from .groups import drop_idle, put_together, write_out
from .head import heads_related, tie, unshift
from .heads import SAME_HEAD, Attention, align_heads
from .layers import SAME_LAYER, layer_numbers, map_layers, relabel, silent
from .mixing import align_query_key_free, align_value_output
from .model import Canonical
from .norms import centre_moved, fold_moved
from .outcome import outcome
from .recast import recast
from .rope import align_query_key
from .side import Side
from .units import align_units
from .vocabulary import match_vocabulary
from .width import narrow

_ENOUGH = 0.995
_SOME = 0.02
_MUCH = 0.9
_MARGIN = 0.01


def align(candidate: Canonical, reference: Canonical) -> Alignment:
    """Bring ``candidate`` into the gauge of ``reference``.

    Args:
        candidate: The model under suspicion; its tensors are not written to.
        reference: The model it may come from; its tensors are not written to.

    Returns:
        Alignment; with unrelated models everything is left as it was and ``matched`` is empty.
    """
    found = align_roles(candidate, reference)
    if coverage(found, reference) > _ENOUGH:
        return found
    options = [found]
    partly = coverage(found, reference) > _SOME  # names may tell lies that shapes do not show
    if (_doubtful(candidate) or partly) and reference.layout.family != GENERIC:
        cast = recast(flat(candidate), reference)
        options += [align_roles(cast, reference)] if cast is not None else []
    elif _doubtful(reference) and candidate.layout.family != GENERIC:
        cast = recast(flat(reference), candidate)
        options += [align_roles(candidate, cast)] if cast is not None else []
    best = _better(options, reference)
    if coverage(best, reference) < _MUCH and (_doubtful(candidate) or _doubtful(reference)):
        best = _better([best, align_generic(candidate, reference)], reference)
    return best


def _better(options: list[Alignment], reference: Canonical) -> Alignment:
    """The first that matches within a percent of what the best does."""
    total = sum(t.numel() for t in reference.tensors.values())
    most = max(_weight(option) for option in options)
    return next(option for option in options if _weight(option) >= most - _MARGIN * total)


def _weight(found: Alignment) -> int:
    """Number of parameters matched."""
    return sum(found.reference[s].numel() for s in found.matched)


def _doubtful(model: Canonical) -> bool:
    """Whether roles were guessed from shapes and values, or not at all."""
    return model.layout.family == GENERIC or model.layout.source == "shapes"


def coverage(found: Alignment, reference: Canonical) -> float:
    """Fraction of the reference's parameters that the candidate carries."""
    total = sum(t.numel() for t in reference.tensors.values())
    return sum(found.reference[s].numel() for s in found.matched if s in reference.tensors) / max(1, total)


def align_generic(candidate: Canonical, reference: Canonical) -> Alignment:
    """``align`` by values alone, tensor by tensor, without roles."""
    witness = Witness()
    aligned, origin, words = pair_generic(dict(candidate.tensors), dict(reference.tensors), witness)
    c, r = Side(candidate.layout, aligned), Side(reference.layout, dict(reference.tensors))
    lost = tuple(s for s in candidate.tensors if s not in origin.values())
    return outcome(candidate, reference, (c, r), words, {}, lost, witness)


def align_roles(candidate: Canonical, reference: Canonical) -> Alignment:
    """``align`` with roles taken as they are."""
    layout = _same_heads(candidate, reference)
    c, r = Side(layout, dict(candidate.tensors)), Side(reference.layout, dict(reference.tensors))
    witness, done = Witness(), set[str]()
    tied = tie(c, r)
    done |= match_vocabulary(c, r, (candidate.tokens, reference.tokens), witness)
    done |= narrow(c, r, witness)
    start = dict(c.tensors), dict(r.tensors)
    words = undo_basis(c, r, witness)
    unscaled = dict(c.tensors)
    scale = provisional_scale(c, r)
    scaled = {id(x): (x, unscaled[s]) for s, x in c.tensors.items() if x is not unscaled[s]}
    layer_map, likeness = map_layers(c, r)
    if words and max(likeness.values(), default=0.0) < SAME_LAYER:
        c.tensors, r.tensors = start
        words, witness, scale = set(), without_basis(witness), 1.0
        layer_map, likeness = map_layers(c, r)
    done |= words
    done |= _layer_words(c, r, layer_map, likeness)
    dropped = relabel(c, layer_map)
    done |= _branches(c, r, witness)
    done |= small_turn(c, r, witness)
    if witness.rotation is not None and witness.permutations.get("residual") is None:
        refine(c, r, witness)
        done |= _branches(c, r, witness)
    done |= fold_moved(c, r, witness)
    done |= centre_moved(c, r)
    done |= _biases(c, r, witness)
    settled = settle_scale(c, r, scale, witness)
    if not settled and scale != 1.0:
        scale_back(c, scale, scaled)
    done |= settled
    done |= unshift(c, r, witness)
    if tied is not None and heads_related(c, r):
        done.add(tied)
    return outcome(candidate, reference, (c, r), done, layer_map, dropped, witness)


def _same_heads(candidate: Canonical, reference: Canonical) -> Layout:
    """The candidate's layout, with the reference's heads where its own projections could be cut into them.

    The number of heads is a claim of the config, which a copier may drop or falsify.
    """
    ours, theirs = candidate.layout.dims, reference.layout.dims
    shapes = [{m.tensors[s].shape for s in m.tensors if s.role is Role.QUERY} for m in (candidate, reference)]
    if ours.head_dim == theirs.head_dim or shapes[0] != shapes[1]:
        return candidate.layout
    dims = replace(ours, head_dim=theirs.head_dim, heads=theirs.heads, kv_heads=theirs.kv_heads)
    return replace(candidate.layout, dims=dims, rotary_dim=reference.layout.rotary_dim)


def _layer_words(c: Side, r: Side, layer_map: dict[int, int], likeness: dict[int, float]) -> set[str]:
    """Words for layers added and taken away."""
    done: set[str] = set()
    if not layer_map:
        return done
    extra = [i for i in layer_numbers(c) if i not in layer_map]
    if any(silent(c, i) for i in extra):
        done.add("appended:identity-layers")
    missing = [j for j in layer_numbers(r) if j not in layer_map.values()]
    found = [i for i, s in likeness.items() if s > SAME_LAYER]
    if missing and len(found) == len(layer_map):
        done.add("dropped:layers")
    if any(i != j for i, j in layer_map.items()) and not missing and not extra:
        done.add("renamed")
    return done


def _branches(c: Side, r: Side, witness: Witness) -> set[str]:
    """Undo what can be undone inside layers, in place."""
    done: set[str] = set()
    for layer in layer_numbers(r):
        done |= unify_experts(c, r, layer, witness)
        done |= align_experts(c, r, layer, witness)
        for slot in [s for s in r.slots(Role.UP) if s.layer == layer]:
            done |= align_units(c, r, layer, slot.expert, witness)
        ca, ra = Attention(c, layer), Attention(r, layer)
        if ca.complete and ra.complete and ca.head_dim == ra.head_dim:
            done |= _attention(ca, ra, witness)
    return done


def _attention(c: Attention, r: Attention, witness: Witness) -> set[str]:
    """Undo what can be undone inside one layer's attention, whatever the numbers of heads, in place."""
    idle = drop_idle(c, r)
    groups = [len(a.heads(Role.KEY)) for a in (c, r)]
    if groups[0] == groups[1] or max(groups) % min(groups) or c.repeat * groups[0] != r.repeat * groups[1]:
        return idle | _same_groups(c, r, witness)
    kept = [{s: x for s, x in a.side.tensors.items() if s.layer == r.layer} for a in (c, r)]
    for attention in (c, r):
        write_out(attention, max(groups))
    done = _same_groups(c, r, witness)
    for attention in (c, r):
        put_together(attention, groups[1])
    r.side.tensors.update(kept[1])
    if witness.evidence[f"heads:{r.layer}"] < SAME_HEAD:
        c.side.tensors.update(kept[0])
        return set()
    return done | {"split:heads"}


def _same_groups(c: Attention, r: Attention, witness: Witness) -> set[str]:
    if c.side.tensors[c.slot(Role.QUERY)].shape != r.side.tensors[r.slot(Role.QUERY)].shape or c.repeat != r.repeat:
        return set()
    done = align_heads(c, r, witness)
    if witness.evidence[f"heads:{r.layer}"] < 0.3:
        return done
    done |= align_value_output(c, r, witness)
    undo = align_query_key if r.side.layout.positions is Positions.ROPE else align_query_key_free
    return done | undo(c, r, witness)


def _biases(c: Side, r: Side, witness: Witness) -> set[str]:
    """Undo what moved between biases; norms are folded by now where they had to be."""
    done: set[str] = set()
    for layer in layer_numbers(r):
        ca, ra = Attention(c, layer), Attention(r, layer)
        if ca.complete and ra.complete and ca.head_dim == ra.head_dim and ca.repeat == ra.repeat:
            done |= align_biases(ca, ra, witness)
    return done
