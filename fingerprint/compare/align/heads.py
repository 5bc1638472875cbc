"""Attention heads: which head is which, found from products that no mixing inside a head can change.

W_q^T W_k and W_o W_v of a head (2-weights section 4, invariants) are compared as whole (d x d) matrices without ever
being formed: <A^T B, C^T D> = sum((A C^T) * (B D^T)).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fingerprint.architecture.interface import Positions, Role, Slot

from .alignment import Witness
from .matching import assign
from .side import Side

SAME_HEAD = 0.5
"""Cosine of head products at which a matching is believed: 20% noise costs 4%, independents stay below .3."""

_GAIN = 0.1
"""How much closer moved heads must come; heads of one group share keys and values, so they resemble each other."""

_PROJECT_ABOVE = 1024
_PROJECTED = 256


@dataclass
class Attention:
    """The projections of one layer, cut into heads.

    Attributes:
        side: Where the tensors live.
        layer: Which layer.
    """

    side: Side
    layer: int

    def slot(self, role: Role) -> Slot:
        """Slot of a role in this layer."""
        return Slot(role, self.layer)

    @property
    def complete(self) -> bool:
        """Whether all four projections are there and divide into heads."""
        dims = self.side.layout.dims
        roles = (Role.QUERY, Role.KEY, Role.VALUE, Role.OUT)
        if not all(self.slot(r) in self.side.tensors for r in roles) or dims.head_dim < 1:
            return False
        q, k, v, o = (self.side.tensors[self.slot(r)].shape for r in roles)
        head = dims.head_dim
        return q[0] % head == 0 and k[0] % head == 0 and v[0] == k[0] and o[1] == q[0] and q[0] % k[0] == 0

    @property
    def head_dim(self) -> int:
        """Rows of a head."""
        return self.side.layout.dims.head_dim

    @property
    def repeat(self) -> int:
        """Query heads of a key/value group."""
        return int(self.side.tensors[self.slot(Role.QUERY)].shape[0] // self.side.tensors[self.slot(Role.KEY)].shape[0])

    def heads(self, role: Role) -> torch.Tensor:
        """(heads, head_dim, d or d+1) with gains folded; for OUT its columns, (heads, head_dim, d).

        Query and key biases stand beside under RoPE. Without it any key bias keeps the function, and a value bias
        can always move into the output's, so those are left out (``biases``).
        """
        slot = self.slot(role)
        beside = role in (Role.QUERY, Role.KEY) and self.side.layout.positions is Positions.ROPE
        x = self.side.augmented(slot) if beside else self.side.reader(slot)
        x = self.side.tensors[slot].T if role is Role.OUT else x
        x = x.reshape(-1, self.head_dim, x.shape[-1])
        norm = {Role.QUERY: Role.QUERY_NORM, Role.KEY: Role.KEY_NORM}.get(role)
        gain = self.side.head_gain(self.slot(norm)) if norm else None
        return x if gain is None or gain.numel() != self.head_dim else x * gain.reshape(1, -1, 1)

    def map_rows(self, role: Role, change: torch.Tensor) -> None:
        """Multiply each head of a reader, and its bias, from the left by ``change`` (heads, n, n), in place."""
        slot = self.slot(role)
        x = self.side.tensors[slot]
        shaped = x.reshape(-1, self.head_dim, x.shape[-1])
        self.side.tensors[slot] = torch.bmm(change, shaped).reshape(x.shape)
        bias_slot = self.side.bias_slot(slot)
        if bias_slot is not None:
            b = self.side.tensors[bias_slot]
            turned = torch.bmm(change, b.reshape(-1, self.head_dim, 1))
            self.side.tensors[bias_slot] = turned.reshape(b.shape)

    def map_out(self, change: torch.Tensor) -> None:
        """Multiply each head's columns of OUT from the right by ``change`` (heads, head_dim, head_dim), in place."""
        slot = self.slot(Role.OUT)
        x = self.side.tensors[slot]
        shaped = x.reshape(x.shape[0], -1, self.head_dim).permute(1, 0, 2)
        self.side.tensors[slot] = torch.bmm(shaped, change).permute(1, 0, 2).reshape(x.shape)

    def reorder(self, query: torch.Tensor, group: torch.Tensor) -> None:
        """Put query heads and key/value groups in this order, biases and OUT's columns too, in place."""
        rows = rows_of(query, self.head_dim)
        group_rows = rows_of(group, self.head_dim)
        for role, order in ((Role.QUERY, rows), (Role.KEY, group_rows), (Role.VALUE, group_rows)):
            slot = self.slot(role)
            self.side.tensors[slot] = self.side.tensors[slot][order]
            bias_slot = self.side.bias_slot(slot)
            if bias_slot is not None:
                self.side.tensors[bias_slot] = self.side.tensors[bias_slot][order]
        self.side.tensors[self.slot(Role.OUT)] = self.side.tensors[self.slot(Role.OUT)][:, rows]


def rows_of(order: torch.Tensor, head: int) -> torch.Tensor:
    """Row numbers of heads ``order``, each ``head`` rows long."""
    return (order[:, None] * head + torch.arange(head)).flatten()


def align_heads(candidate: Attention, reference: Attention, witness: Witness) -> set[str]:
    """Undo a permutation of key/value groups and of query heads inside them, in place on the candidate.

    Returns:
        Transforms undone.
    """
    score = head_similarity(candidate, reference)
    here = score.diagonal()
    name = f"heads:{reference.layer}"
    witness.evidence[name] = float(here.median())
    query, group, matched = _assign_groups(score, reference.repeat)
    moved = query != torch.arange(score.shape[0])
    if not bool(moved.any()):
        return set()
    gained = float((matched - here)[moved].mean())
    if float(matched.median()) < SAME_HEAD or float(matched[moved].median()) < SAME_HEAD or gained < _GAIN:
        return set()
    witness.evidence[name] = float(matched.median())
    candidate.reorder(query, group)
    witness.permuted(name, query)
    return {"permuted:heads"}


def _assign_groups(score: torch.Tensor, repeat: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(candidate query head of each reference head, candidate group of each reference group, score of each head)."""
    heads = score.shape[0]
    groups = heads // repeat
    blocks = score.reshape(groups, repeat, groups, repeat).permute(0, 2, 1, 3)
    inner = torch.zeros(groups, groups, repeat, dtype=torch.int64)
    value = torch.zeros(groups, groups)
    for a in range(groups):
        for b in range(groups):
            inner[a, b] = assign(blocks[a, b])
            value[a, b] = blocks[a, b][torch.arange(repeat), inner[a, b]].sum()
    group = assign(value)
    query = torch.cat([group[a] * repeat + inner[a, group[a]] for a in range(groups)])
    return query, group, score[torch.arange(heads), query]


def head_similarity(candidate: Attention, reference: Attention) -> torch.Tensor:
    """(reference heads, candidate heads) mean cosine of the query-key and the value-out products of each pair."""
    total = torch.zeros(())
    for left, right in ((Role.QUERY, Role.KEY), (Role.OUT, Role.VALUE)):
        pairs = []
        for a in (reference, candidate):
            x, y = a.heads(left), a.heads(right).repeat_interleave(a.repeat, dim=0)
            pairs.append((_projected(x), _projected(y)))
        total = total + _product_cosines(pairs[0], pairs[1])
    return total / 2


def _projected(x: torch.Tensor) -> torch.Tensor:
    if x.shape[-1] <= _PROJECT_ABOVE:
        return x
    g = torch.randn(x.shape[-1], _PROJECTED, generator=torch.Generator().manual_seed(4))
    return x @ g


def _product_cosines(r: tuple[torch.Tensor, torch.Tensor], c: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Cosine of r_x[i]^T r_y[i] with c_x[j]^T c_y[j] for every pair of heads, (reference heads, candidate heads)."""
    n, m, head = r[0].shape[0], c[0].shape[0], r[0].shape[1]
    if r[0].shape[-1] != c[0].shape[-1] or r[1].shape[-1] != c[1].shape[-1] or head != c[0].shape[1]:
        return torch.zeros(n, m)
    grams = [
        (a.reshape(n * head, -1) @ b.reshape(m * head, -1).T).reshape(n, head, m, head)
        for a, b in zip(r, c, strict=True)
    ]
    inner = torch.einsum("iajb,iajb->ij", grams[0], grams[1])
    norm_r, norm_c = _product_norms(*r), _product_norms(*c)
    return inner / (norm_r[:, None] * norm_c[None, :]).clamp_min(1e-30)


def _product_norms(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Frobenius norm of x[i]^T y[i], (heads,)."""
    xx, yy = torch.bmm(x, x.transpose(1, 2)), torch.bmm(y, y.transpose(1, 2))
    return (xx * yy).sum(dim=(1, 2)).clamp_min(0).sqrt()
