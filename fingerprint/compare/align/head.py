"""The head: tied, untied, or shifted by one row that softmax cannot see."""

from __future__ import annotations

from fingerprint.architecture.interface import Role, Slot

from .alignment import Witness
from .matching import cosine
from .side import Side

_RELATED = 0.5
_SHIFTED = 0.5
_EXACT = 0.1
_LEAST = 1e-4
_LARGE = 0.4


def tie(candidate: Side, reference: Side) -> str | None:
    """Give the tied side the head it stands for, when only one is tied, in place.

    Returns:
        The word for what was undone (``untied`` or ``retied``), to be used only if the heads turn out related.
    """
    head, embed = Slot(Role.HEAD), Slot(Role.EMBED)
    if (head in candidate.tensors) == (head in reference.tensors):
        return None
    tied, word = (reference, "untied") if head in candidate.tensors else (candidate, "retied")
    if embed not in tied.tensors:
        return None
    tied.tensors[head] = tied.tensors[embed]
    return word


def heads_related(candidate: Side, reference: Side) -> bool:
    """Whether both heads now carry the same values."""
    c, r = candidate.get(Role.HEAD), reference.get(Role.HEAD)
    return c is not None and r is not None and c.shape == r.shape and cosine(c, r) > _RELATED


def unshift(candidate: Side, reference: Side, witness: Witness) -> set[str]:
    """Undo head + 1 c^T if the mean row difference is most of the difference, in place on the candidate.

    Optimisers with per-coordinate steps push the rows of unseen tokens along together: a common drift is most of what
    honest training does to a head, and it is left alone. What is undone is a drift that leaves (almost) nothing, or
    one as large as the head itself.
    """
    head = Slot(Role.HEAD)
    c, r = candidate.tensors.get(head), reference.tensors.get(head)
    if c is None or r is None or c.shape != r.shape:
        return set()
    gap = c - r
    shift = gap.mean(dim=0, keepdim=True)
    size, before = float(r.norm()), float(gap.norm())
    after = before if before == 0.0 else float(gap.sub_(shift).norm())
    witness.evidence |= {"head:before": before / max(size, 1e-30), "head:after": after / max(size, 1e-30)}
    exact = after < _EXACT * before and before > _LEAST * size
    if not (exact or (after < _SHIFTED * before and before > _LARGE * size)):
        return set()
    candidate.tensors[head] = c - shift
    witness.scales["head-shift"] = shift[0]
    return {"shifted:head"}
