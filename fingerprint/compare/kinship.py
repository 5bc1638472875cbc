"""Kinship through symmetry invariants: what a fingerprint still shows when the gauge was changed.

MLP units are matched by their token probes (which a rotation, a permutation or a rescaling cannot move), layers by the
units they share, heads by their power sums, embeddings by the angles between tokens. What the matched units say about
the change is in ``drawn``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from fingerprint.architecture.interface import Role
from fingerprint.compare.drawn import Sample, judge
from fingerprint.compare.structure import Coherence
from fingerprint.fingerprint import Fingerprint, HeadInvariants, TokenCosines, UnitInvariants

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
        relative: By role, size of the probe difference over that of the probes.
        left: The same after a step toward or away from the base was taken out.
        coherence: By role, of what is left, where drawn changes are independent.
        ordered: Whether matched units stand in the same order.
    """

    candidate: int
    reference: int
    fraction: float
    cosine: float
    triples: float
    relative: Mapping[Role, float]
    left: Mapping[Role, float]
    coherence: Mapping[Role, Coherence]
    ordered: bool

    @property
    def moved(self) -> float:
        """RMS relative change over the roles, all of it."""
        return float(np.sqrt(np.mean([r * r for r in self.relative.values()]))) if self.relative else 0.0

    @property
    def size(self) -> float:
        """RMS relative change over the roles, without a step along the base."""
        return float(np.sqrt(np.mean([r * r for r in self.left.values()]))) if self.left else 0.0


@dataclass(frozen=True)
class HeadKin:
    """Attention of one layer of each model, matched head by head through power sums.

    Attributes:
        candidate: Layer in the candidate.
        reference: Layer in the reference.
        values: Median over heads of the RMS difference of value-output power sums; 0 where there are none. Single heads
            with nearly equal eigenvalues move much more than others.
        queries: The same of query-key power sums.
        ordered: Whether matched heads stand in the same order.
    """

    candidate: int
    reference: int
    values: float
    queries: float
    ordered: bool


@dataclass(frozen=True)
class Kinship:
    """All that invariants say about two fingerprints.

    Attributes:
        layers: Layers matched by their units.
        heads: Layers matched by their heads, all of the smaller number; whether they are close is for the caller.
        tokens: Correlation of token cosines, -1..1; 0 when there are too few tokens in common.
        token_shift: RMS difference of token cosines.
        head_shift: The same for the head's rows; None where one has no head of its own.
        toward_base: Coefficient of the change on the reference's own change from the base; 0 without a base.
    """

    layers: tuple[LayerKin, ...] = ()
    heads: tuple[HeadKin, ...] = ()
    tokens: float = 0.0
    token_shift: float = 1.0
    head_shift: float | None = None
    toward_base: float = 0.0

    @property
    def embedded(self) -> bool:
        """Whether the embeddings are one."""
        return self.tokens >= SAME_TOKENS


def kinship(candidate: Fingerprint, reference: Fingerprint, base: Fingerprint | None = None) -> Kinship:
    """Match layers, heads and tokens of two fingerprints of one algorithm and key.

    Args:
        candidate: Of the candidate.
        reference: Of the reference.
        base: Of a model the reference comes from, in its gauge: steps toward or away from it are taken out first.
    """
    basis = next((b for b in candidate.meta.token_bases if b in reference.meta.token_bases), None)
    heads = _heads(candidate, reference)
    if basis is None:
        return Kinship(heads=heads)
    a, b = candidate.tokens.get(basis), reference.tokens.get(basis)
    tokens, shift = _tokens(a, b)
    layers, toward = _layers(candidate, reference, base, basis)
    return Kinship(layers, heads, tokens, shift, _head_shift(a, b), toward)


def matched_layers(candidate: Fingerprint, reference: Fingerprint) -> dict[int, tuple[int, float, float]]:
    """Reference layer to candidate layer, fraction of units matched and relative change; cheap enough for ranking."""
    basis = next((b for b in candidate.meta.token_bases if b in reference.meta.token_bases), None)
    if basis is None:
        return {}
    return {
        m.reference: (m.candidate, m.fraction, float(np.sqrt(np.mean([s.relative**2 for s in m.samples.values()]))))
        for m in _matches(candidate, reference, None, basis)
        if m.samples
    }


def token_shift(candidate: Fingerprint, reference: Fingerprint) -> tuple[float, float]:
    """Correlation and RMS difference of token cosines."""
    basis = next((b for b in candidate.meta.token_bases if b in reference.meta.token_bases), None)
    return (0.0, 1.0) if basis is None else _tokens(candidate.tokens.get(basis), reference.tokens.get(basis))


def _tokens(a: TokenCosines | None, b: TokenCosines | None) -> tuple[float, float]:
    """Correlation and RMS difference over pairs of tokens that both have."""
    found = None if a is None or b is None else _paired(a, b, a.embed, b.embed)
    if found is None:
        return 0.0, 1.0
    x, y = found
    spread = float(x.std() * y.std())
    correlation = float(((x - x.mean()) * (y - y.mean())).mean() / spread) if spread > 0 else 0.0
    return correlation, float(np.sqrt(((x - y) ** 2).mean()))


def _head_shift(a: TokenCosines | None, b: TokenCosines | None) -> float | None:
    if a is None or b is None or a.head is None or b.head is None:
        return None
    found = _paired(a, b, a.head, b.head)
    return None if found is None else float(np.sqrt(((found[0] - found[1]) ** 2).mean()))


def _paired(
    a: TokenCosines, b: TokenCosines, first: np.ndarray, second: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Cosines of the pairs of tokens that both have; None for under 8 tokens."""
    _, i, j = np.intersect1d(a.hashes, b.hashes, return_indices=True)
    if i.size < 8:
        return None
    upper = np.triu_indices(i.size, 1)
    return (
        first[np.ix_(i, i)].astype(np.float64)[upper],
        second[np.ix_(j, j)].astype(np.float64)[upper],
    )


@dataclass(frozen=True)
class _Match:
    """Units of a layer of each model, one to one, before their change is judged."""

    candidate: int
    reference: int
    fraction: float
    cosine: float
    triples: float
    ordered: bool
    samples: Mapping[Role, Sample]


def _layers(
    candidate: Fingerprint, reference: Fingerprint, base: Fingerprint | None, basis: str
) -> tuple[tuple[LayerKin, ...], float]:
    """Matched layers with their changes judged, and the coefficient of the change toward the base."""
    matches = _matches(candidate, reference, base, basis)
    samples = [s for m in matches for s in m.samples.values()]
    toward = _toward(samples)
    gram = reference.probe_gram[basis].astype(np.float64)
    layers = tuple(
        LayerKin(
            m.candidate, m.reference, m.fraction, m.cosine, m.triples,
            {role: s.relative for role, s in m.samples.items()},
            {role: s.left(toward) for role, s in m.samples.items()},
            {role: judge(s, gram, toward) for role, s in m.samples.items()},
            m.ordered,
        )
        for m in matches
    )  # fmt: skip
    return layers, toward


def _toward(samples: Sequence[Sample]) -> float:
    """Least-squares coefficient of all changes on the reference's own change."""
    known = [s for s in samples if s.own is not None and s.usable.any()]
    across = sum(float((s.delta[s.usable] * s.own[s.usable]).sum()) for s in known if s.own is not None)
    along = sum(float((s.own[s.usable] ** 2).sum()) for s in known if s.own is not None)
    return across / along if along > 0 else 0.0


def _matches(
    candidate: Fingerprint, reference: Fingerprint, base: Fingerprint | None, basis: str
) -> tuple[_Match, ...]:
    """One-to-one layer map by shared units; the same index is tried first and kept when it holds."""
    found: list[_Match] = []
    free = set(reference.layers)
    later: list[int] = []
    for index in candidate.layers:
        kin = _match(candidate, reference, base, index, index, basis) if index in free else None
        if kin is None:
            later.append(index)
        else:
            found.append(kin)
            free.discard(index)
    for index in later:
        tried = (_match(candidate, reference, base, index, other, basis) for other in sorted(free))
        options = [m for m in tried if m is not None]
        if options:
            best = max(options, key=lambda m: m.fraction)
            found.append(best)
            free.discard(best.reference)
    return tuple(sorted(found, key=lambda m: m.reference))


def _match(
    candidate: Fingerprint, reference: Fingerprint, base: Fingerprint | None, i: int, j: int, basis: str
) -> _Match | None:
    a, b = candidate.layers[i].units, reference.layers[j].units
    if a is None or b is None or basis not in a.gate or basis not in b.gate:
        return None
    x, y = a.directions(basis), b.directions(basis)
    rows, columns, cosines = _mutual(x, y)
    size = min(x.shape[0], y.shape[0])
    if size == 0 or rows.size < SAME_LAYER * size:
        return None
    own = None if base is None or j not in base.layers else base.layers[j].units
    triples = a.triples[rows].astype(np.float64) - b.triples[columns].astype(np.float64)
    places = np.stack([a.expert[rows], a.index[rows]]) == np.stack([b.expert[columns], b.index[columns]])
    return _Match(
        candidate=i,
        reference=j,
        fraction=rows.size / size,
        cosine=float(np.median(cosines)),
        triples=float(np.sqrt((triples**2).mean())),
        ordered=bool(places.all()),
        samples=_samples(a, b, own, rows, columns, basis),
    )


def _mutual(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that are each other's nearest, with cosine of at least SAME_UNIT."""
    width = min(x.shape[1], y.shape[1])
    cosines = x[:, :width] @ y[:, :width].T
    if cosines.size == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)
    forward, backward = cosines.argmax(1), cosines.argmax(0)
    best = cosines.max(1)
    rows = np.flatnonzero((backward[forward] == np.arange(x.shape[0])) & (best >= SAME_UNIT))
    return rows, forward[rows], best[rows]


def _samples(
    a: UnitInvariants, b: UnitInvariants, own: UnitInvariants | None, rows: np.ndarray, columns: np.ndarray, basis: str
) -> dict[Role, Sample]:
    """Probe differences of matched units, by the role of the matrix they sample, in the order of ``gram``."""
    gated = bool(a.up) and bool(b.up)
    names: list[tuple[Role, str]] = [(Role.GATE, "gate"), (Role.UP, "up")] if gated else [(Role.UP, "gate")]
    names.append((Role.DOWN, "down"))
    sign = _signs(a, b, rows, columns, basis, gated=gated)
    strongest = b.strongest
    known = np.isin(columns, strongest)
    at = np.searchsorted(strongest, columns[known])
    back = None if own is None else _same_units(b, own, columns[known])
    found: dict[Role, Sample] = {}
    for part, (role, name) in enumerate(names):
        ours, theirs = getattr(a, name).get(basis), getattr(b, name).get(basis)
        if ours is None or theirs is None or ours.shape[1] != theirs.shape[1] or part >= b.gram.shape[0]:
            continue
        flip = np.ones(rows.size) if name == "gate" else sign
        x, y = ours[rows].astype(np.float64) * flip[:, None], theirs[columns].astype(np.float64)
        energy = float((y**2).sum())
        direction = None
        if own is not None and back is not None:
            before = getattr(own, name).get(basis)
            if before is not None and before.shape[1] == y.shape[1]:
                direction = np.zeros_like(y[known])
                direction[back >= 0] = y[known][back >= 0] - _oriented(before[back[back >= 0]], y[known][back >= 0])
        found[role] = Sample(
            delta=(x - y)[known],
            own=direction,
            usable=np.ones(int(known.sum()), dtype=bool) if back is None else back >= 0,
            cosines=b.gram[part][np.ix_(at, at)].astype(np.float64),
            size=a.norms[rows[known], 0 if name == "gate" and gated else (2 if name == "down" else 1)].astype(float),
            seen=a.seen.astype(np.float64) if name != "down" else np.zeros((0, 0)),
            relative=float(np.sqrt(((x - y) ** 2).sum() / energy)) if energy > 0 else 0.0,
            energy=float((y[known] ** 2).sum()),
        )
    return found


def _oriented(rows: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Rows with the sign that brings each nearer to its counterpart."""
    x = rows.astype(np.float64)
    return np.asarray(x * np.where((x * like).sum(1) < 0, -1.0, 1.0)[:, None])


def _signs(
    a: UnitInvariants, b: UnitInvariants, rows: np.ndarray, columns: np.ndarray, basis: str, *, gated: bool
) -> np.ndarray:
    """Common sign of up and down that brings matched units nearest; stored signs waver where cos(g, u) is near 0."""
    total = np.zeros(rows.size)
    for mine, theirs in ((a.up, b.up), (a.down, b.down)) if gated else ():
        if basis in mine and basis in theirs:
            total += (mine[basis][rows].astype(np.float64) * theirs[basis][columns].astype(np.float64)).sum(1)
    return np.where(total < 0, -1.0, 1.0)


def _same_units(b: UnitInvariants, own: UnitInvariants, columns: np.ndarray) -> np.ndarray:
    """Position in ``own`` of the units that stand at the same place as ``columns`` of ``b``; -1 where not kept."""
    place = {(int(e), int(i)): n for n, (e, i) in enumerate(zip(own.expert, own.index, strict=True))}
    return np.array([place.get((int(b.expert[c]), int(b.index[c])), -1) for c in columns], dtype=np.int64)


def _heads(candidate: Fingerprint, reference: Fingerprint) -> tuple[HeadKin, ...]:
    """One-to-one map of attention layers by their heads' power sums; equal distances keep the order."""
    ours = {i: x.heads for i, x in candidate.layers.items() if x.heads is not None}
    theirs = {j: x.heads for j, x in reference.layers.items() if x.heads is not None}
    if not ours or not theirs:
        return ()
    pairs = {(i, j): _head_kin(i, j, a, b) for i, a in ours.items() for j, b in theirs.items()}
    rows, columns = list(ours), list(theirs)
    cost = np.array([[FAR if (k := pairs[i, j]) is None else k.values + k.queries for j in columns] for i in rows])
    chosen = (pairs[rows[m], columns[n]] for m, n in zip(*linear_sum_assignment(cost), strict=True))
    return tuple(sorted((k for k in chosen if k is not None), key=lambda k: k.reference))


FAR = 1e3
"""Stands for a pair of layers with different numbers of heads."""


def _head_kin(i: int, j: int, a: HeadInvariants, b: HeadInvariants) -> HeadKin | None:
    """Heads are matched by all their power sums together."""
    x, y = _joined(a), _joined(b)
    if x.shape != y.shape or x.shape[0] == 0:
        return None
    distance = ((x[:, None] - y[None]) ** 2).sum(2)
    rows, columns = linear_sum_assignment(distance)
    return HeadKin(
        candidate=i,
        reference=j,
        values=_typical(a.value_output, b.value_output, rows, columns),
        queries=_typical(a.query_key, b.query_key, rows, columns),
        ordered=bool((rows == columns).all()),
    )


def _typical(x: np.ndarray, y: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> float:
    if x.shape != y.shape or x.shape[0] != rows.size:
        return 0.0
    difference = x[rows].astype(np.float64) - y[columns].astype(np.float64)
    return float(np.median(np.sqrt((difference**2).mean(1))))


def _joined(heads: HeadInvariants) -> np.ndarray:
    parts = [x.astype(np.float64) for x in (heads.value_output, heads.query_key) if x.shape[0]]
    if not parts:
        return np.zeros((0, 0))
    return np.concatenate(parts, axis=1) if len({p.shape[0] for p in parts}) == 1 else parts[0]
