"""Kinship through symmetry invariants: what a fingerprint still shows when the gauge was changed.

MLP units are matched by their token probes (which a rotation, a permutation or a rescaling cannot move), layers by the
units they share, embeddings by the angles between tokens. Matched probes are coordinates of the same unit in both
models, so their difference is a sample of the delta, taken in directions that the embeddings span.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from fingerprint.architecture.interface import Role
from fingerprint.compare.structure import Coherence, coherence
from fingerprint.fingerprint import Fingerprint, TokenCosines, UnitInvariants

SAME_UNIT = 0.8
"""Cosine of token probes from which two units are one. Independents of one architecture have a median of .47 and are
mutual nearest in .22 of cases; at .8 they are matched in a few per cent."""

SAME_LAYER = 0.35
"""Fraction of a layer's chosen units that must be matched. Choosing by content loses some of them to the change."""

SAME_TOKENS = 0.9
"""Correlation of token cosines from which two embeddings are one."""


@dataclass(frozen=True)
class LayerKin:
    """A layer of the candidate and the layer of the reference that its units come from.

    Attributes:
        candidate: Layer in the candidate.
        reference: Layer in the reference.
        fraction: Matched units over the smaller number of chosen units.
        cosine: Median cosine of matched probes.
        triples: RMS difference of the matched units' triples (cosines times sqrt d).
        relative: RMS size of the probe difference, rows of unit length, over gate, up and down.
        coherence: By role, of the whitened probe differences.
    """

    candidate: int
    reference: int
    fraction: float
    cosine: float
    triples: float
    relative: float
    coherence: Mapping[Role, Coherence]


@dataclass(frozen=True)
class Kinship:
    """All that invariants say about two fingerprints.

    Attributes:
        layers: Matched layers.
        tokens: Correlation of token cosines, -1..1; 0 when there are too few tokens in common.
        token_shift: RMS difference of token cosines.
    """

    layers: tuple[LayerKin, ...]
    tokens: float
    token_shift: float

    @property
    def embedded(self) -> bool:
        """Whether the embeddings are one."""
        return self.tokens >= SAME_TOKENS


def kinship(candidate: Fingerprint, reference: Fingerprint) -> Kinship:
    """Match layers and tokens of two fingerprints of one algorithm and key."""
    basis = next((b for b in candidate.meta.token_bases if b in reference.meta.token_bases), None)
    if basis is None:
        return Kinship((), 0.0, 1.0)
    tokens, shift = _tokens(candidate.tokens.get(basis), reference.tokens.get(basis))
    return Kinship(_layers(candidate, reference, basis), tokens, shift)


def _tokens(a: TokenCosines | None, b: TokenCosines | None) -> tuple[float, float]:
    """Correlation and RMS difference over pairs of tokens that both have."""
    if a is None or b is None:
        return 0.0, 1.0
    _, i, j = np.intersect1d(a.hashes, b.hashes, return_indices=True)
    if i.size < 8:
        return 0.0, 1.0
    upper = np.triu_indices(i.size, 1)
    x = a.embed[np.ix_(i, i)].astype(np.float64)[upper]
    y = b.embed[np.ix_(j, j)].astype(np.float64)[upper]
    spread = float(x.std() * y.std())
    correlation = float(((x - x.mean()) * (y - y.mean())).mean() / spread) if spread > 0 else 0.0
    return correlation, float(np.sqrt(((x - y) ** 2).mean()))


def _layers(candidate: Fingerprint, reference: Fingerprint, basis: str) -> tuple[LayerKin, ...]:
    """One-to-one layer map by shared units; the same index is tried first and kept when it holds."""
    found: list[LayerKin] = []
    free = set(reference.layers)
    later: list[int] = []
    for index in candidate.layers:
        kin = _kin(candidate, reference, index, index, basis) if index in free else None
        if kin is None:
            later.append(index)
        else:
            found.append(kin)
            free.discard(index)
    for index in later:
        options = [k for other in sorted(free) if (k := _kin(candidate, reference, index, other, basis)) is not None]
        if options:
            best = max(options, key=lambda k: k.fraction)
            found.append(best)
            free.discard(best.reference)
    return tuple(sorted(found, key=lambda k: k.reference))


def _kin(candidate: Fingerprint, reference: Fingerprint, i: int, j: int, basis: str) -> LayerKin | None:
    a, b = candidate.layers[i].units, reference.layers[j].units
    if a is None or b is None or basis not in a.gate or basis not in b.gate:
        return None
    rows, columns = _mutual(a.gate[basis], b.gate[basis])
    size = min(a.gate[basis].shape[0], b.gate[basis].shape[0])
    if size == 0 or rows.size < SAME_LAYER * size:
        return None
    triples = a.triples[rows].astype(np.float64) - b.triples[columns].astype(np.float64)
    deltas = {
        role: x[rows].astype(np.float64) - y[columns].astype(np.float64)
        for role, x, y in _probed(a, b, basis)
        if x.shape[1] == y.shape[1]
    }
    whiten = _whitening(reference, basis)
    cosines = (a.gate[basis][rows].astype(np.float64) * b.gate[basis][columns].astype(np.float64)).sum(1)
    return LayerKin(
        candidate=i,
        reference=j,
        fraction=rows.size / size,
        cosine=float(np.median(cosines)),
        triples=float(np.sqrt((triples**2).mean())),
        relative=float(np.sqrt(np.mean([(d**2).sum(1).mean() for d in deltas.values()]))),
        coherence={role: coherence(torch.from_numpy(d @ whiten)) for role, d in deltas.items() if d.shape[0] >= 4},
    )


def _mutual(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are each other's nearest, with cosine of at least SAME_UNIT."""
    width = min(x.shape[1], y.shape[1])
    a, b = x[:, :width].astype(np.float32), y[:, :width].astype(np.float32)
    cosines = a @ b.T
    if cosines.size == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    forward, backward = cosines.argmax(1), cosines.argmax(0)
    rows = np.flatnonzero((backward[forward] == np.arange(a.shape[0])) & (cosines.max(1) >= SAME_UNIT))
    return rows, forward[rows]


def _probed(a: UnitInvariants, b: UnitInvariants, basis: str) -> list[tuple[Role, np.ndarray, np.ndarray]]:
    """Probe arrays both have, by the role of the matrix they sample."""
    gated = bool(a.up) and bool(b.up)
    out = [(Role.GATE if gated else Role.UP, a.gate[basis], b.gate[basis])]
    if gated and basis in a.up and basis in b.up:
        out.append((Role.UP, a.up[basis], b.up[basis]))
    if basis in a.down and basis in b.down:
        out.append((Role.DOWN, a.down[basis], b.down[basis]))
    return out


def _whitening(reference: Fingerprint, basis: str) -> np.ndarray:
    """Inverse square root of the probes' Gram matrix: makes the probe difference of a drawn change iid again."""
    gram = reference.probe_gram[basis].astype(np.float64)
    values, vectors = np.linalg.eigh(gram / np.trace(gram) * gram.shape[0])
    return np.asarray(vectors @ np.diag(np.clip(values, 1e-3, None) ** -0.5) @ vectors.T)
