"""Plain rivals on the same pairs: what validators use today, or would try first."""

from __future__ import annotations

import torch

from fingerprint.compare import Source

COSINE = 0.99


def verdicts(candidate: Source, reference: Source) -> dict[str, bool]:
    """Rival's name to whether it flags a copy."""
    return {"equal shard hashes": _same_files(candidate, reference), "cosine > .99": _cosine(candidate, reference)}


def _same_files(candidate: Source, reference: Source) -> bool:
    """Sorted per-tensor byte digests stand in for sorted shard hashes: kinder to the rival than the files' own."""
    ours = sorted(t.digest for t in candidate.fingerprint.tensors)
    theirs = sorted(t.digest for t in reference.fingerprint.tensors)
    return ours == theirs and _layout(candidate) == _layout(reference)


def _layout(source: Source) -> list[int]:
    return sorted(size for _, size in source.fingerprint.meta.files)


def _cosine(candidate: Source, reference: Source) -> bool:
    """Mean cosine of tensors of equal name and shape; flags when all of the reference's matrices are there."""
    if candidate.checkpoint is None or reference.checkpoint is None:
        return False
    ours, theirs = candidate.checkpoint.tensors, reference.checkpoint.tensors
    shared = [n for n, t in theirs.items() if n in ours and ours[n].shape == t.shape and len(t.shape) >= 2]
    if not shared or len(shared) < sum(len(t.shape) >= 2 for t in theirs.values()):
        return False
    values = []
    for name in shared:
        x, y = candidate.checkpoint.tensor(name).float().flatten(), reference.checkpoint.tensor(name).float().flatten()
        values.append(float(torch.nn.functional.cosine_similarity(x, y, dim=0)))
    return sum(values) / len(values) > COSINE
