"""One or many safetensors files as one checkpoint, the index held to what the shards say."""

from __future__ import annotations

from collections.abc import Sequence

from fingerprint.checkpoint.folder import check_tensors
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.checkpoint.limits import Limits
from fingerprint.checkpoint.quantised import dequantised
from fingerprint.checkpoint.request import Request
from fingerprint.checkpoint.safetensors import SafetensorsFile
from fingerprint.checkpoint.stored import SafetensorsCheckpoint
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint

_SHARED_HEADERS = 2
"""Headers of a whole set may take this many times the bound of one."""


def open_safetensors(request: Request) -> Checkpoint:
    """Open every shard, or none, and put quantised weights back together.

    Raises:
        CheckpointError: A shard is malformed, a tensor has two homes, or the index says otherwise.
    """
    shards: list[SafetensorsFile] = []
    try:
        for source, name in zip(request.sources, request.files.names, strict=True):
            shards.append(SafetensorsFile(source, name=name, limits=request.limits))
            _check_total(shards, request.limits)
        check_tensors(_homes(shards), request.files)
        base = SafetensorsCheckpoint(request.path, shards, config=request.config, tokens=request.tokens)
        return dequantised(base)
    except BaseException:
        for shard in shards:
            shard.map.close()
        raise


def _check_total(shards: Sequence[SafetensorsFile], limits: Limits) -> None:
    """Bounds hold for the set, not only for each of its two thousand files."""
    tensors, headers = sum(len(shard.entries) for shard in shards), sum(shard.data for shard in shards)
    if tensors > limits.tensors or headers > _SHARED_HEADERS * limits.header_bytes:
        raise CheckpointTooLarge(
            "too many tensors or header bytes in all shards",
            where=f"{shards[-1].file.name}:header",
            got=(tensors, headers),
            expected=f"<= {limits.tensors}, {_SHARED_HEADERS * limits.header_bytes}",
        )


def _homes(shards: Sequence[SafetensorsFile]) -> dict[str, str]:
    found: dict[str, str] = {}
    for shard in shards:
        for name in shard.entries:
            if name in found:
                raise MalformedCheckpoint(
                    "tensor in two shards",
                    where=f"{shard.file.name}:{name[:100]}",
                    got=f"also in {found[name]}",
                    expected="one home",
                )
            found[name] = shard.file.name
    return found
