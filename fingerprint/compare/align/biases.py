"""Biases that attention cannot see (2-weights section 4, "others").

Softmax over keys is blind to a constant, so without RoPE any key bias keeps the function; and its weights sum to one,
so that a value bias can move into the output's: b_o + W_o b_v is what counts.
"""

from __future__ import annotations

import torch

from fingerprint.architecture.interface import Positions, Role

from .alignment import Witness
from .heads import Attention
from .matching import relative

_MOVED = 0.5
_LEFT = 0.3
"""What may be left of the output bias's difference; honest siblings whose norms were folded leave .5."""
_EXACT = 1e-3
"""What is left where the difference is nothing but the move: no training does that, however small the move."""
_NOT_DRIFT = 4.0
"""Optimisers move key biases by noise alone (their gradient is zero): up to 1.3 times their tiny size, measured."""


def align_biases(candidate: Attention, reference: Attention, witness: Witness) -> set[str]:
    """Give the candidate the reference's key bias and split of value and output bias where only these differ.

    Heads and mixings must be undone already. In place on the candidate.

    Returns:
        Transforms undone.
    """
    done = _value_bias(candidate, reference)
    slot = reference.slot(Role.KEY_BIAS)
    c, r = candidate.side.tensors.get(slot), reference.side.tensors.get(slot)
    if c is None or r is None or c.shape != r.shape or reference.side.layout.positions is Positions.ROPE:
        return done
    gap = relative(c, r)
    witness.evidence[f"key-bias:{reference.layer}"] = gap
    if gap > _NOT_DRIFT:
        candidate.side.tensors[slot] = r.clone()
        done = done | {"shifted:biases"}
    return done


def _value_bias(candidate: Attention, reference: Attention) -> set[str]:
    slots = candidate.slot(Role.VALUE_BIAS), candidate.slot(Role.OUT_BIAS)
    if any(s not in a.side.tensors for s in slots for a in (candidate, reference)):
        return set()
    vc, oc = (candidate.side.tensors[s] for s in slots)
    vr, our = (reference.side.tensors[s] for s in slots)
    if vc.shape != vr.shape or oc.shape != our.shape:
        return set()
    moved = _pushed(candidate, vc - vr)
    before, after = float((oc - our).norm()), float((oc + moved - our).norm())
    moved_much = float((vc - vr).norm()) >= _MOVED * float(vr.norm()) and after < _LEFT * before
    if not moved_much and after >= _EXACT * before:
        return set()
    candidate.side.tensors[slots[0]], candidate.side.tensors[slots[1]] = vr.clone(), oc + moved
    return {"shifted:biases"}


def _pushed(attention: Attention, bias: torch.Tensor) -> torch.Tensor:
    """W_o applied to a value bias, repeated for the query heads of each group, (d,)."""
    groups = bias.reshape(-1, attention.head_dim).repeat_interleave(attention.repeat, dim=0)
    return attention.side.tensors[attention.slot(Role.OUT)] @ groups.flatten()
