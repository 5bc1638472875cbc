"""What aligning found: the candidate in the reference's gauge, and the witness that anyone can check again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from fingerprint.architecture.interface import Slot


@dataclass
class Witness:
    """The transform that was undone, and how well that went (2-weights section 4, "A witness").

    Filled while aligning, read-only by contract afterwards.

    Attributes:
        permutations: Name (``mlp:3``, ``heads:0``, ``vocabulary``, ...) to candidate indices in reference order.
        scales: Name to the scales that were divided out.
        mixings: Name to the matrices (groups x n x n) that were applied to the candidate's value or key rows.
        rotation: Orthogonal (d x d) matrix applied on the right of the candidate's residual stream; None if identity.
        residual_scale: What the residual stream was divided by.
        orthogonality: Largest entry of |R^T R - 1|.
        rotation_held_out: tr(R1^T R2) / d of rotations fitted on two halves of the rows; nan if not fitted.
        residuals: Slot to relative norm |aligned - reference| / |reference|.
        before: The same in the gauge the candidate came in, where shapes allow.
        gains: Norm slot to (candidate's, reference's) gain vector that was folded into its readers.
        padded_rows: Rows of the candidate's vocabulary that the reference does not have.
        evidence: Numbers that decided whether something was undone, by name.
    """

    permutations: dict[str, torch.Tensor] = field(default_factory=dict)
    scales: dict[str, torch.Tensor] = field(default_factory=dict)
    mixings: dict[str, torch.Tensor] = field(default_factory=dict)
    rotation: torch.Tensor | None = None
    residual_scale: float = 1.0
    orthogonality: float = 0.0
    rotation_held_out: float = float("nan")
    residuals: dict[Slot, float] = field(default_factory=dict)
    before: dict[Slot, float] = field(default_factory=dict)
    gains: dict[Slot, tuple[torch.Tensor, torch.Tensor]] = field(default_factory=dict)
    padded_rows: int = 0
    evidence: dict[str, float] = field(default_factory=dict)

    def permuted(self, name: str, order: torch.Tensor) -> None:
        """Note a permutation, on top of one noted before under this name."""
        before = self.permutations.get(name)
        self.permutations[name] = order if before is None else before[order]

    def scaled(self, name: str, factors: torch.Tensor) -> None:
        """Note scales that were divided out, on top of those noted before under this name."""
        before = self.scales.get(name)
        self.scales[name] = factors if before is None else before * factors

    def mixed(self, name: str, change: torch.Tensor) -> None:
        """Note matrices that were applied, on top of those noted before under this name."""
        before = self.mixings.get(name)
        self.mixings[name] = change if before is None else change @ before


@dataclass(frozen=True)
class Alignment:
    """A candidate brought into a reference's gauge; ``aligned[slot] - reference[slot]`` is the delta.

    Attributes:
        aligned: Reference slot to the candidate's float32 tensor, same shape as ``reference[slot]``.
        reference: The reference in the gauge compared in (norms folded, rows cut, when the candidate forced that).
        transforms: What was undone, in the contract's words, sorted.
        layer_map: Candidate layer to reference layer; layers that match nothing are absent.
        matched: Reference slots that carry the reference's values, with a confidence in [0, 1].
        unmatched_candidate: Candidate slots without a counterpart, or whose values are not the reference's.
        unmatched_reference: Reference slots without a counterpart, or whose values are not found.
        witness: How to check it.
    """

    aligned: Mapping[Slot, torch.Tensor]
    reference: Mapping[Slot, torch.Tensor]
    transforms: tuple[str, ...]
    layer_map: Mapping[int, int]
    matched: Mapping[Slot, float]
    unmatched_candidate: tuple[Slot, ...]
    unmatched_reference: tuple[Slot, ...]
    witness: Witness
