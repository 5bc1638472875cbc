"""One side of a comparison while it is being aligned: slots, and how gains and the residual basis act on them.

Readers multiply the residual stream from the right, writers add to it from the left (2-weights section 4). Every
change of unit or head order acts on the other axis and commutes with gains, so that gains can stay where they are
until it is known whether they must be folded.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fingerprint.architecture.interface import Layout, Norm, Role, Slot

ATTENTION_READERS = (Role.QUERY, Role.KEY, Role.VALUE)
MLP_READERS = (Role.GATE, Role.UP, Role.ROUTER, Role.SHARED_GATE)
TABLES = (Role.EMBED, Role.POSITION, Role.TOKEN_TYPE)
WRITERS = (Role.OUT, Role.DOWN)
RESIDUAL_COLUMNS = frozenset({*TABLES, *ATTENTION_READERS, *MLP_READERS, Role.HEAD})
RESIDUAL_ROWS = frozenset(WRITERS)
RESIDUAL_VECTORS = frozenset({Role.OUT_BIAS, Role.DOWN_BIAS})
NORMS = frozenset(
    {
        Role.EMBED_NORM,
        Role.FINAL_NORM,
        Role.NORM_ATTENTION,
        Role.NORM_MLP,
        Role.NORM_POST_ATTENTION,
        Role.NORM_POST_MLP,
    }
)
NORM_BIASES = frozenset({Role.EMBED_NORM_BIAS, Role.FINAL_NORM_BIAS, Role.NORM_ATTENTION_BIAS, Role.NORM_MLP_BIAS})
BIAS_OF = {
    Role.QUERY: Role.QUERY_BIAS,
    Role.KEY: Role.KEY_BIAS,
    Role.VALUE: Role.VALUE_BIAS,
    Role.GATE: Role.GATE_BIAS,
    Role.UP: Role.UP_BIAS,
    Role.HEAD: Role.HEAD_BIAS,
    Role.OUT: Role.OUT_BIAS,
    Role.DOWN: Role.DOWN_BIAS,
}
_NORM_BIAS = {
    Role.FINAL_NORM: Role.FINAL_NORM_BIAS,
    Role.NORM_ATTENTION: Role.NORM_ATTENTION_BIAS,
    Role.NORM_MLP: Role.NORM_MLP_BIAS,
}


@dataclass
class Side:
    """A working copy; tensors are replaced, never written into, so that the caller's stay as they were.

    Attributes:
        layout: What it is.
        tensors: Slot to float32 tensor.
    """

    layout: Layout
    tensors: dict[Slot, torch.Tensor]

    def get(self, role: Role, layer: int = -1, expert: int = -1) -> torch.Tensor | None:
        """The tensor of a role, or None."""
        return self.tensors.get(Slot(role, layer, expert))

    def bias_slot(self, slot: Slot) -> Slot | None:
        """Where the bias of ``slot`` stands, if it has one."""
        role = BIAS_OF.get(slot.role)
        found = slot._replace(role=role) if role is not None else None
        return found if found in self.tensors else None

    def norm_slot(self, slot: Slot) -> Slot | None:
        """The norm whose output ``slot`` reads; None in post-LN models, whose norms lie inside the residual path."""
        if not self.layout.pre_norm:
            return None
        if slot.role is Role.HEAD:
            names: tuple[Role, ...] = (Role.FINAL_NORM,)
        elif slot.role in ATTENTION_READERS:
            names = (Role.NORM_ATTENTION,)
        elif slot.role in MLP_READERS:
            names = (Role.NORM_MLP, Role.NORM_ATTENTION)
        else:
            return None
        layer = -1 if slot.role is Role.HEAD else slot.layer
        return next((s for s in (Slot(n, layer) for n in names) if s in self.tensors), None)

    def gain(self, norm: Slot) -> torch.Tensor:
        """The factors a norm multiplies by, (d,)."""
        weight = self.tensors[norm]
        return weight + 1.0 if self.layout.norm is Norm.RMS_OFFSET else weight

    def head_gain(self, slot: Slot) -> torch.Tensor | None:
        """The factors of a QK-norm, None if there is none."""
        weight = self.tensors.get(slot)
        if weight is None:
            return None
        return weight + 1.0 if self.layout.norm is Norm.RMS_OFFSET else weight

    @property
    def centred(self) -> bool:
        """Whether norms subtract the mean, so that readers and writers carry a free component along 1."""
        return self.layout.norm is Norm.LAYER and self.layout.pre_norm

    def reader(self, slot: Slot) -> torch.Tensor:
        """A reader (n x d) with its gain folded in and, under LayerNorm, centred: what it does to a unit-RMS input."""
        weight = self.tensors[slot]
        norm = self.norm_slot(slot)
        if norm is None:
            return weight
        weight = weight * self.gain(norm)
        return weight - weight.mean(dim=1, keepdim=True) if self.centred else weight

    def reader_bias(self, slot: Slot) -> torch.Tensor | None:
        """A reader's bias with the norm's bias folded in, (n,); None if there is neither."""
        bias_slot, norm = self.bias_slot(slot), self.norm_slot(slot)
        bias = self.tensors[bias_slot] if bias_slot else None
        shift = self.tensors.get(norm._replace(role=_NORM_BIAS[norm.role])) if norm else None
        if shift is None:
            return bias
        pushed = self.tensors[slot] @ shift
        return pushed if bias is None else bias + pushed

    def augmented(self, slot: Slot) -> torch.Tensor:
        """``reader`` with its bias as one more column, (n x d or d+1)."""
        weight, bias = self.reader(slot), self.reader_bias(slot)
        return weight if bias is None else torch.cat([weight, bias[:, None]], dim=1)

    def slots(self, *roles: Role) -> list[Slot]:
        """All slots of these roles, in a fixed order."""
        return sorted(s for s in self.tensors if s.role in roles)


def norms(side: Side) -> list[Slot]:
    """Norms whose gains can be folded into readers, in a fixed order."""
    found = {side.norm_slot(s) for s in side.slots(*ATTENTION_READERS, *MLP_READERS, Role.HEAD)}
    return sorted(n for n in found if n is not None)


def readers(side: Side, norm: Slot) -> list[Slot]:
    """What reads a norm's output."""
    slots = side.slots(*ATTENTION_READERS, *MLP_READERS, Role.HEAD)
    return [s for s in slots if side.norm_slot(s) == norm]


def fold(side: Side, chosen: list[Slot]) -> None:
    """Move the gains (and LayerNorm's biases and centring) of these norms into what reads them, in place.

    Gains become 1, biases 0. What adds to the residual stream is centred by ``centre``.
    """
    new: dict[Slot, torch.Tensor] = {}
    for norm in chosen:
        for slot in readers(side, norm):
            new[slot] = side.reader(slot)
            bias = side.reader_bias(slot)
            if bias is not None and slot.role in BIAS_OF:
                new[slot._replace(role=BIAS_OF[slot.role])] = bias
        neutral = 0.0 if side.layout.norm is Norm.RMS_OFFSET else 1.0
        new[norm] = torch.full_like(side.tensors[norm], neutral)
        shift = norm._replace(role=_NORM_BIAS[norm.role])
        if shift in side.tensors:
            new[shift] = torch.zeros_like(side.tensors[shift])
    side.tensors.update(new)


def centre(side: Side) -> None:
    """Take the component along 1 out of everything that adds to the residual stream: LayerNorm never sees it."""
    for slot in side.slots(*TABLES):
        x = side.tensors[slot]
        side.tensors[slot] = x - x.mean(dim=1, keepdim=True)
    for slot in side.slots(*WRITERS, *RESIDUAL_VECTORS):
        x = side.tensors[slot]
        side.tensors[slot] = x - x.mean(dim=0, keepdim=True)
