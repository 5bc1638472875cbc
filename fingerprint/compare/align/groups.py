"""Numbers of heads that differ: heads added that write nothing, key/value groups written out once per query head.

Grouped-query attention is multi-head attention with equal keys and values; written out, it can be mixed head by head.
So both sides are written out to the larger number of groups, aligned there, and put together again.
"""

from __future__ import annotations

import torch

from fingerprint.architecture.interface import Role

from .heads import SAME_HEAD, Attention, head_similarity, rows_of

_IDLE = 0.3
_SHARED = (Role.KEY, Role.VALUE, Role.KEY_BIAS, Role.VALUE_BIAS)


def drop_idle(candidate: Attention, reference: Attention) -> set[str]:
    """Take out groups of the candidate that write nothing and are nowhere in the reference, in place.

    Returns:
        Transforms undone; empty when the numbers of heads then still differ.
    """
    if candidate.repeat != reference.repeat:
        return set()
    groups, wanted = (len(a.heads(Role.KEY)) for a in (candidate, reference))
    if groups <= wanted:
        return set()
    best = head_similarity(candidate, reference).max(dim=0).values.reshape(groups, -1).max(dim=1).values
    size = candidate.heads(Role.OUT).flatten(1).norm(dim=1).reshape(groups, -1).norm(dim=1)
    busy = size.sort(descending=True).values[:wanted].median()
    keep = torch.nonzero(~((size < _IDLE * busy) & (best < SAME_HEAD))).flatten()
    if len(keep) != wanted:
        return set()
    order = keep if candidate.repeat == 1 else rows_of(keep, candidate.repeat)
    candidate.reorder(order, keep)
    return {"padded:heads"}


def write_out(attention: Attention, groups: int) -> None:
    """Repeat keys and values so that there are ``groups`` of them, in place; the function stays."""
    repeat = groups // len(attention.heads(Role.KEY))
    for role in _SHARED:
        x = attention.side.tensors.get(attention.slot(role))
        if x is not None:
            parts = x.reshape(-1, attention.head_dim, *x.shape[1:]).repeat_interleave(repeat, dim=0)
            attention.side.tensors[attention.slot(role)] = parts.reshape(-1, *x.shape[1:])


def put_together(attention: Attention, groups: int) -> None:
    """Average keys and values that belong to one of ``groups`` groups, in place; undoes ``write_out``."""
    for role in _SHARED:
        x = attention.side.tensors.get(attention.slot(role))
        if x is not None:
            parts = x.reshape(groups, -1, attention.head_dim, *x.shape[1:])
            attention.side.tensors[attention.slot(role)] = parts.mean(dim=1).reshape(-1, *x.shape[1:])
