"""Same content? Exact identities first: they need no statistics and survive re-sharding, renaming and casting."""

from __future__ import annotations

from collections import Counter

from fingerprint.compare.evidence import Same
from fingerprint.fingerprint import Fingerprint, TensorEntry


def identity(candidate: Fingerprint, reference: Fingerprint) -> Same:
    """The strongest content identity that holds between two fingerprints."""
    if candidate.content_root == reference.content_root:
        return Same.CONTENT
    if candidate.nameless_root == reference.nameless_root:
        return Same.NAMELESS
    if candidate.value_root == reference.value_root:
        return Same.VALUES
    if candidate.nameless_value_root == reference.nameless_value_root:
        return Same.NAMELESS_VALUES
    if _values(candidate) == _values(reference):
        return Same.NAMELESS_VALUES
    return Same.MULTISET if _reoriented(candidate, reference) else Same.NO


def packaging(candidate: Fingerprint, reference: Fingerprint, same: Same) -> tuple[str, ...]:
    """How the containers differ, in the contract's words; casts and renames only where identity proves them."""
    words = list(candidate.meta.transforms)
    if candidate.meta.format != reference.meta.format:
        words.append(f"container:{candidate.meta.format}")
    elif len(candidate.meta.files) != len(reference.meta.files):
        words.append("resharded")
    if same in (Same.NAMELESS, Same.NAMELESS_VALUES, Same.MULTISET) and _names(candidate) != _names(reference):
        words.append("renamed")
    if same is not Same.NO and _dtypes(candidate) != _dtypes(reference):
        words.append(f"cast:{SHORT.get(_dtype(candidate), _dtype(candidate).lower())}")
    if same is Same.MULTISET:
        words.append("axes-permuted")
    return tuple(dict.fromkeys(words))


SHORT = {"BF16": "bf16", "F16": "f16", "F32": "f32", "F64": "f64"}


def _names(fingerprint: Fingerprint) -> set[str]:
    return {t.name for t in fingerprint.tensors}


def _values(fingerprint: Fingerprint) -> set[str]:
    """Distinct value digests: a tied head written out twice adds nothing."""
    return {t.value for t in fingerprint.tensors if _carries_weight(t)}


def _carries_weight(entry: TensorEntry) -> bool:
    """Integer tensors (position ids) are no weights; they come and go with library versions."""
    return entry.dtype.startswith(("F", "BF"))


def _reoriented(candidate: Fingerprint, reference: Fingerprint) -> bool:
    """Whether the weights are equal one to one, some of them with their axes in another order.

    A tensor of the same shape must be equal value for value: rows of one shape in another order (permuted units) have
    equal multisets too, but that is a symmetry of the model, not of its storage.
    """
    ours = Counter(t.value for t in candidate.tensors if _carries_weight(t))
    theirs = Counter(t.value for t in reference.tensors if _carries_weight(t))
    left, wanted = _without(candidate, theirs), _without(reference, ours)
    if not left or len(left) != len(wanted) or not all(t.multiset for t in (*left, *wanted)):
        return False
    if Counter(t.multiset for t in left) != Counter(t.multiset for t in wanted):
        return False
    return not {(t.multiset, t.shape) for t in left} & {(t.multiset, t.shape) for t in wanted}


def _without(fingerprint: Fingerprint, values: Counter[str]) -> list[TensorEntry]:
    """Weights whose values are not among ``values``, each of which accounts for one tensor."""
    budget, left = Counter(values), []
    for t in fingerprint.tensors:
        if not _carries_weight(t):
            continue
        if budget[t.value] > 0:
            budget[t.value] -= 1
        else:
            left.append(t)
    return left


def _dtypes(fingerprint: Fingerprint) -> Counter[str]:
    return Counter(t.dtype for t in fingerprint.tensors if _carries_weight(t))


def _dtype(fingerprint: Fingerprint) -> str:
    """Dtype of most parameters."""
    sizes = Counter[str]()
    for t in fingerprint.tensors:
        sizes[t.dtype] += t.numel
    return sizes.most_common(1)[0][0] if sizes else ""
