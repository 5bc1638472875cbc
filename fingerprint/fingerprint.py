"""A Fingerprint: everything a later comparison needs, when the checkpoint itself may be gone.

Plain frozen dataclasses over NumPy arrays; ``fingerprint.scan`` makes them, ``fingerprint.file`` stores them. Every
array is documented with shape and dtype, because comparison code lives by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fingerprint.architecture.interface import Dims, Role, Slot
from fingerprint.content import content_root, nameless_root
from fingerprint.sketch.signs import sign_bits

STRINGS, IDS = "strings", "ids"
"""Token bases: signs drawn by token string (survive a permuted vocabulary), or by token id."""


@dataclass(frozen=True)
class TensorEntry:
    """One stored tensor.

    Attributes:
        name: Name in the container.
        shape: Logical shape.
        dtype: Logical dtype, safetensors spelling.
        stored: The container's own dtype name.
        digest: Hex tensor digest.
        value: Hex value digest (values as bfloat16).
        multiset: Hex digest of the counted bfloat16 codes and sorted shape; empty where none was made.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    stored: str
    digest: str
    value: str
    multiset: str = ""

    @property
    def numel(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1


@dataclass(frozen=True)
class Statistics:
    """Per-slot numbers. ``norm`` and ``rows`` see every value, the others a content-independent sample of rows.

    Attributes:
        norm: Frobenius norm.
        mean: Mean.
        kurtosis: Excess kurtosis (0 for a Gaussian).
        peak: Largest magnitude seen.
        zeros: Fraction of exact zeros.
        rows: Quantiles (0, 1/8 .. 1) of the row norms over sqrt(row length), float32 (9,).
        nonfinite: Number of rows that held NaN or infinity (taken as zero by everything but the digests).
    """

    norm: float
    mean: float
    kurtosis: float
    peak: float
    zeros: float
    rows: np.ndarray
    nonfinite: int = 0


@dataclass(frozen=True)
class Lattice:
    """Whether values sit on few levels, as after quantise-dequantise.

    Attributes:
        bits: Detected width; 0 when the values look continuous.
        scheme: E.g. ``int8-row``, ``int4-group128``, ``nf4-group64``, ``levels-tensor``; empty when bits is 0.
        evidence: float32 (9,): distinct over possible values pooled, per row, per group of 128, 64, 32 columns, then
            phase coherence per row, per group of 128, 64, 32 (near 1 on a lattice); NaN where not measurable.
    """

    bits: int
    scheme: str
    evidence: np.ndarray


@dataclass(frozen=True)
class SlotSketch:
    """A slot's sketch.

    Attributes:
        shape: Canonical shape of the slot (out x in for matrices; any rank on the generic path).
        statistics: Norm and moments.
        lattice: Quantisation signal; None for vectors.
        linear: float32. Matrices: (r, s) linear sketch, unbiased for inner products, taken after norm gains were
            folded into the matrices that read through them. Vectors: the vector itself when
            ``whole``, else a linear sketch (64,).
        whole: Whether ``linear`` is the slot's values themselves (flat, C order).
        minhash: uint32 (64,) MinHash of the top-k magnitude index set, or None outside the budget.
        tensor: Name of the stored tensor the slot is cut from.
        grid: float32 (r, s) stored values at the rows and columns that ``Fingerprint.grid_index`` names for the two
            side lengths (higher ranks: first axis by the rest); None for vectors.
        gain: float32 (s,) what the norm before a reader multiplies the grid's columns by; None where nothing folds.
    """

    shape: tuple[int, ...]
    statistics: Statistics
    lattice: Lattice | None
    linear: np.ndarray
    whole: bool
    minhash: np.ndarray | None
    tensor: str
    grid: np.ndarray | None = None
    gain: np.ndarray | None = None

    @property
    def norm(self) -> float:
        """Frobenius norm."""
        return self.statistics.norm

    @property
    def numel(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64)) if self.shape else 1

    @property
    def signs(self) -> np.ndarray:
        """Packed sign bits of the leading 16 x 16 block, uint8."""
        return sign_bits(self.linear)


def strongest(norms: np.ndarray, keep: int) -> np.ndarray:
    """Positions of the ``keep`` units with the largest leading norm, ascending.

    Args:
        norms: float (N, 3) as in ``UnitInvariants``.
        keep: How many.
    """
    lead = np.where(norms[:, 0] > 0, norms[:, 0], norms[:, 1])
    return np.sort(np.argsort(-lead, kind="stable")[:keep]).astype(np.int64)


@dataclass(frozen=True)
class UnitInvariants:
    """MLP units of one layer, chosen by content: the largest norms of folded gate rows (plain MLPs: up rows).

    All directions are taken after folding norm gains. N units, k probes per basis. Experts are pooled.

    Attributes:
        count: Units in the layer, over all experts.
        expert: int32 (N,) expert of the unit, -1 in dense layers.
        index: int32 (N,) row of the unit in its expert; for witnesses, not for matching.
        triples: float16 (N, 3): cos(g,u), cos(g,d), cos(u,d) times sqrt(d), signs flipped so that the first is
            positive. Plain MLPs: (0, 0, cos(u,d) sqrt(d)).
        norms: float32 (N, 3): |g|, |u|, |d|; |g| is 0 in plain MLPs.
        gate: Basis to float16 (N, k): gate rows of unit length on the token probes (plain MLPs: the up rows).
        up: Basis to float16 (N, k), the same of the up rows, sign as in triples. Empty in plain MLPs.
        down: Basis to float16 (N, k), the same of the down columns, sign as in triples.
        centre: Basis to float32 (k,): the mean of all gate rows (not of unit length) on the token probes.
        gram: float16 (2 or 3, G, G): cosines between the gate rows, up rows and down columns (plain MLPs: up and down)
            of the ``strongest`` G units: what a drawn change of the embeddings does to the probes.
        seen: float16 (k, k): inner products of the first basis' probes, each coordinate of the stream weighted with the
            square of the gain that gate and up read it through; what noise drawn in stored rows does to their probes.
            Empty (0, 0) without a gain.
        spread: float32 (9,) quantiles (0, 1/8 .. 1) over all units of the choosing norm, over their median.
    """

    count: int
    expert: np.ndarray
    index: np.ndarray
    triples: np.ndarray
    norms: np.ndarray
    gate: Mapping[str, np.ndarray]
    up: Mapping[str, np.ndarray]
    down: Mapping[str, np.ndarray]
    centre: Mapping[str, np.ndarray]
    gram: np.ndarray
    seen: np.ndarray
    spread: np.ndarray

    def directions(self, basis: str) -> np.ndarray:
        """Gate rows on the probes of ``basis``, centred over all units, unit length: what units are matched by.

        Returns:
            float32 (N, k).
        """
        lead = np.where(self.norms[:, :1] > 0, self.norms[:, :1], self.norms[:, 1:2])
        rows = self.gate[basis].astype(np.float32) * lead - self.centre[basis]
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)

    @property
    def strongest(self) -> np.ndarray:
        """Positions of the units that ``gram`` is about, int64, ascending."""
        return strongest(self.norms, self.gram.shape[1])


@dataclass(frozen=True)
class HeadInvariants:
    """Similarity invariants of attention heads: power sums m_k = tr(M^k)/n, k = 1..6, over max_k |m_k|^(1/k) to the k.

    Attributes:
        value_output: float32 (heads, 6) of W_v W_o per query head; empty (0, 6) where a piece is missing.
        value_output_scale: float32 (heads,) log of the scale that was divided out.
        query_key: float32 (heads, 6) of W_k W_q^T per query head.
        query_key_scale: float32 (heads,) log of the scale that was divided out.
    """

    value_output: np.ndarray
    value_output_scale: np.ndarray
    query_key: np.ndarray
    query_key_scale: np.ndarray


@dataclass(frozen=True)
class LayerInvariants:
    """Symmetry invariants of one layer; None where a piece is missing.

    Attributes:
        units: Of the MLP.
        heads: Of attention, head by head.
        spans: Of attention, matrix by matrix: role and kind to float16 (k (k + 1) / 2,), see ``invariants.spans``.
    """

    units: UnitInvariants | None
    heads: HeadInvariants | None
    spans: Mapping[Role, Mapping[str, np.ndarray]] = field(default_factory=dict)


@dataclass(frozen=True)
class TokenCosines:
    """Cosines between the rows of T tokens, chosen by smallest keyed hash.

    Attributes:
        ids: int64 (T,) token ids here.
        hashes: uint64 (T,) ascending; equal hash means equal token (by string or id), so sets can be intersected.
        embed: float16 (T, T) cosines between embedding rows.
        head: float16 (T, T) between head rows (after folding the final norm, less their mean), None when tied or
            absent.
    """

    ids: np.ndarray
    hashes: np.ndarray
    embed: np.ndarray
    head: np.ndarray | None


@dataclass(frozen=True)
class Meta:
    """What was scanned, and how.

    Attributes:
        algorithm: Name that encodes every parameter that changes the output.
        key_id: First 8 hex digits of SHA-256 of the sketch key; only equal keys compare.
        format: Container format.
        family: Layout family.
        dims: Sizes.
        norm: Norm kind (``rms``, ...).
        positions: Position kind.
        pre_norm: Norm before the branch.
        gated: Gated MLP.
        tied: Head is the embedding.
        source: What told roles apart.
        ambiguous: Pairs of roles that could not be told apart.
        notes: Layout notes.
        transforms: What the reader undid (``Checkpoint.notes``).
        parameters: Number of stored elements.
        files: (name, size) of the weight files.
        config: Hex digest of the canonical JSON of the config; empty when there is none.
        tokenizer: Hex digest over the token strings; empty when there are none.
        token_bases: Bases the probes were made in, ``strings`` first.
    """

    algorithm: str
    key_id: str
    format: str
    family: str
    dims: Dims
    norm: str
    positions: str
    pre_norm: bool
    gated: bool
    tied: bool
    source: str
    ambiguous: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    transforms: tuple[str, ...]
    parameters: int
    files: tuple[tuple[str, int], ...]
    config: str
    tokenizer: str
    token_bases: tuple[str, ...]


@dataclass(frozen=True)
class Fingerprint:
    """A checkpoint in a few hundred kilobytes.

    Attributes:
        meta: What was scanned, and how.
        tensors: Table of stored tensors, sorted by name.
        slots: Slot to sketch, sorted by slot; integer tensors have none.
        layers: Layer index to invariants; empty on the generic path.
        tokens: Basis to embedding cosines; empty where there is no embedding.
        grid_index: Side length to int32 indices that grids keep of it, ascending.
        probe_gram: Basis to float32 (k, k) inner products of the token probes, to whiten probed rows.
        global_vector: float16, unit length: invariant under section 4's symmetries; near for descendants.
        basis_vector: float16, unit length: leading 8 x 8 sketches averaged over layers, for models in one basis.
    """

    meta: Meta
    tensors: tuple[TensorEntry, ...]
    slots: Mapping[Slot, SlotSketch]
    layers: Mapping[int, LayerInvariants] = field(default_factory=dict)
    tokens: Mapping[str, TokenCosines] = field(default_factory=dict)
    probe_gram: Mapping[str, np.ndarray] = field(default_factory=dict)
    grid_index: Mapping[int, np.ndarray] = field(default_factory=dict)
    global_vector: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float16))
    basis_vector: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float16))

    @cached_property
    def content_root(self) -> str:
        """``sha256:`` root over names and digests: the checkpoint's identity."""
        return content_root((t.name, t.digest) for t in self.tensors)

    @cached_property
    def nameless_root(self) -> str:
        """``sha256:`` root over the digests alone; survives renames."""
        return nameless_root(t.digest for t in self.tensors)

    @cached_property
    def value_root(self) -> str:
        """``sha256:`` root over names and value digests; survives casts to bfloat16."""
        return content_root((t.name, t.value) for t in self.tensors)

    @cached_property
    def nameless_value_root(self) -> str:
        """``sha256:`` root over value digests alone; survives renames and casts."""
        return nameless_root(t.value for t in self.tensors)

    @property
    def parameters(self) -> int:
        """Number of stored elements."""
        return self.meta.parameters

    @property
    def algorithm(self) -> str:
        """Name of the algorithm that made it."""
        return self.meta.algorithm
