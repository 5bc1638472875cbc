"""Vocabulary rows: which row of the candidate stands for which token of the reference.

Three proposals: the same ids, the same token strings, and (without strings) the same values. A proposal is judged by
what no rotation or scale can change: the cosines between rows (2-weights section 4). Token strings are the
candidate's claim, so they too are judged by values.
"""

from __future__ import annotations

from itertools import pairwise

import torch

from fingerprint.architecture.interface import Role, Slot

from .alignment import Witness
from .matching import match_rows, nearest, normalised, row_cosines
from .residual import polar
from .side import Side

_SAMPLE = 384
_SEEN = 0.3
_CLEAR = 0.6
_ROUNDS = 6
_MOST_VALUES = 8192
"""Rows up to which a rotated vocabulary without token strings is matched by values (quadratic, several rounds)."""

_VOCABULARY = (Role.EMBED, Role.HEAD, Role.HEAD_BIAS)


def gram_agreement(candidate: torch.Tensor, reference: torch.Tensor) -> float:
    """Correlation of the cosines between sampled rows on both sides, in [-1, 1].

    Args:
        candidate: (n, d), row i for the token of reference row i.
        reference: (n, d').

    Returns:
        0 for unrelated rows; 1 for rows equal up to rotation, scale and shift.
    """
    n = reference.shape[0]
    keep = torch.randperm(n, generator=torch.Generator().manual_seed(1))[:_SAMPLE]
    upper = torch.triu_indices(len(keep), len(keep), 1)
    grams = []
    for x in (candidate[keep], reference[keep]):
        rows = normalised(x - x.mean(dim=0))
        values = (rows @ rows.T)[upper[0], upper[1]]
        grams.append(values - values.mean())
    size = float(grams[0].norm() * grams[1].norm())
    return float(grams[0] @ grams[1]) / size if size > 0 else 0.0


def match_vocabulary(
    candidate: Side,
    reference: Side,
    tokens: tuple[tuple[str, ...] | None, tuple[str, ...] | None],
    witness: Witness,
) -> set[str]:
    """Bring the candidate's vocabulary into the reference's order, in place on both sides.

    Args:
        candidate: Rows are reordered and padding dropped.
        reference: Rows the candidate does not have are dropped.
        tokens: Token strings of both.
        witness: Takes the permutation and the agreement.

    Returns:
        Transforms undone.
    """
    c, r = candidate.get(Role.EMBED), reference.get(Role.EMBED)
    if c is None or r is None:
        return set()
    rows = min(c.shape[0], r.shape[0])
    ids = torch.arange(rows)
    best, pairs = gram_agreement(c[:rows], r[:rows]), (ids, ids)
    named = _by_string(c.shape[0], r.shape[0], tokens)
    if named is not None and len(named[0]) >= 64:
        score = gram_agreement(c[named[0]], r[named[1]])
        if score > max(best + 0.05, _SEEN):
            best, pairs = score, named
    if best < _SEEN and c.shape[1] == r.shape[1]:
        valued = _by_value(candidate, reference)
        if valued is not None:
            pairs = valued
            best = gram_agreement(c[pairs[0]], r[pairs[1]])
    witness.evidence["vocabulary"] = best
    return _apply(candidate, reference, pairs, witness, related=best >= _SEEN)


def _by_string(
    n: int, m: int, tokens: tuple[tuple[str, ...] | None, tuple[str, ...] | None]
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """(candidate rows, reference rows) of tokens that both name."""
    if tokens[0] is None or tokens[1] is None:
        return None
    place = {token: i for i, token in enumerate(tokens[0][:n])}
    found = [(place[t], i) for i, t in enumerate(tokens[1][:m]) if t in place]
    if not found:
        return None
    both = torch.tensor(found)
    return both[:, 0], both[:, 1]


def _apply(
    candidate: Side, reference: Side, pairs: tuple[torch.Tensor, torch.Tensor], witness: Witness, *, related: bool
) -> set[str]:
    c_rows, r_rows = candidate.tensors[Slot(Role.EMBED)].shape[0], reference.tensors[Slot(Role.EMBED)].shape[0]
    ordered = bool((pairs[0] == pairs[1]).all())
    if ordered and c_rows == r_rows == len(pairs[0]):
        return set()
    for side, order, rows in ((candidate, pairs[0], c_rows), (reference, pairs[1], r_rows)):
        for role in _VOCABULARY:
            x = side.get(role)
            if x is not None and x.shape[0] == rows:
                side.tensors[Slot(role)] = x[order]
    done = set()
    witness.padded_rows = c_rows - len(pairs[0])
    if c_rows != r_rows and related:
        done.add("padded:vocabulary")
    if not ordered and related:
        witness.permutations["vocabulary"] = pairs[0]
        done.add("permuted:vocabulary")
    return done


def _by_value(candidate: Side, reference: Side) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Match rows by their values: directly, or by features that no rotation changes, refined by Procrustes."""
    c, r = candidate.tensors[Slot(Role.EMBED)], reference.tensors[Slot(Role.EMBED)]
    keep = torch.randperm(r.shape[0], generator=torch.Generator().manual_seed(2))[:_SAMPLE]
    _, near, _ = nearest(r[keep], c)
    if float(near.median()) > _CLEAR:
        return _pairs(c, r)
    if r.shape[0] > _MOST_VALUES:
        return None
    order = match_rows(_row_features(candidate), _row_features(reference), complete=False).order
    score = -1.0
    turned = c
    for _ in range(_ROUNDS):
        found = order >= 0
        turned = c @ polar(c[order[found]].T @ r[found])
        match = match_rows(turned, r, complete=False)
        order, last, score = match.order, score, float(match.score.mean())
        if score < last + 1e-3:
            break
    return _pairs(turned, r) if score > _CLEAR else None


def _pairs(c: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    match = match_rows(c, r, complete=False)
    found = (match.order >= 0) & (match.score > 0.5)
    rows = torch.nonzero(found).flatten()
    if len(rows) < 64 or float(row_cosines(c[match.order[rows]], r[rows]).median()) < _CLEAR:
        return None
    return match.order[rows], rows


def _row_features(side: Side) -> torch.Tensor:
    """(V, k) features of embedding rows that follow no rotation: products with vectors that turn along.

    The vectors come from moments that neither row order nor unit order changes: the mean row, and it multiplied by
    second moments of the embedding and of each layer's matrices.
    """
    e = side.tensors[Slot(Role.EMBED)]
    moments = [e.T @ e]
    for slot in side.slots(Role.GATE, Role.UP, Role.HEAD):
        if slot.expert < 0 and len(moments) < 24:
            w = side.reader(slot)
            moments.append(w.T @ w)
    mean = e.mean(dim=0)
    vectors = [mean]
    for moment in moments:
        v = moment @ mean
        vectors += [v, moment @ v]
    for first, second in pairwise(moments):
        vectors.append(second @ (first @ mean))
    linear = e @ torch.stack([v / v.norm().clamp_min(1e-30) for v in vectors]).T
    squares = torch.stack([((e @ m) * e).sum(dim=1) / m.norm().clamp_min(1e-30) for m in moments], dim=1)
    features = torch.cat([linear, squares], dim=1)
    features = features - features.mean(dim=0)
    return features / features.std(dim=0).clamp_min(1e-30)
