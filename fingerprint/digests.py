"""Tensor digests without a fingerprint, from bytes that somebody else is reading anyway.

Whoever signs a checkpoint digests its files; the content root needs digests of its tensors. Where tensors lie in the
files as they are (safetensors), one read gives both: the file's bytes stream through a ``FileSink`` that knows from the
header where each tensor begins. What is stored in another form (packed, pickled, dequantised) is read by its reader.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch

from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.checkpoint.safetensors import SafetensorsFile
from fingerprint.checkpoint.stored import SafetensorsCheckpoint
from fingerprint.content import TensorHasher, dtype_name, tensor_header
from fingerprint.errors import MalformedCheckpoint

BLOCK_ELEMENTS = 1 << 20


class FileSink:
    """Digests of the tensors of one safetensors file, from its bytes in order."""

    def __init__(self, file: SafetensorsFile) -> None:
        self._file = file
        self._header = file.map.read(0, file.data)
        self._seen = bytearray()
        self._at = 0
        # Bytes other than 0 and 1 are no booleans; the reader refuses them, so it reads those tensors.
        self._left = [e for e in file.entries.values() if e.info.dtype != torch.bool][::-1]
        self._hash = hashlib.sha256()
        self.digests: dict[str, str] = {}
        self._begin()

    def update(self, chunk: memoryview) -> None:
        """Take the next bytes of the file.

        Raises:
            MalformedCheckpoint: They are not those of the file whose header was read.
        """
        start, self._at = self._at, self._at + len(chunk)
        data = self._file.data
        if start < data:
            self._seen += chunk[: data - start]
            if len(self._seen) == data and self._seen != self._header:
                raise MalformedCheckpoint("file changed while it was read", where=self._file.file.name)
        while self._left and self._at > data + self._left[-1].begin:
            begin, end = data + self._left[-1].begin, data + self._left[-1].end
            self._hash.update(chunk[max(0, begin - start) : max(0, end - start)])
            if self._at < end:
                return
            self._finish()
            self._begin()

    def whole(self) -> Mapping[str, str]:
        """The digests by name, once the last byte was taken.

        Raises:
            MalformedCheckpoint: The file ended early.
        """
        if self._left or self._at != self._file.map.size:
            raise MalformedCheckpoint("file changed while it was read", where=self._file.file.name, got=self._at)
        return self.digests

    def _begin(self) -> None:
        """Start on the next tensor that has bytes; those that have none are done at once."""
        while self._left:
            info = self._left[-1].info
            self._hash = hashlib.sha256(tensor_header(dtype_name(info.dtype), info.shape))
            if info.numel:
                return
            self._finish()

    def _finish(self) -> None:
        self.digests[self._left.pop().info.name] = self._hash.hexdigest()


class TensorDigests:
    """Tensor digests of an open checkpoint, file by file where a file gives them.

    Args:
        checkpoint: Stays open until ``finish``.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint
        self._files: dict[str, SafetensorsFile] = {}
        if isinstance(checkpoint, SafetensorsCheckpoint):
            self._files = {shard.file.name: shard for shard in checkpoint.shards}
        self._sinks: dict[str, FileSink] = {}

    def sink(self, name: str) -> FileSink | None:
        """Who wants the bytes of this file (named relative to the checkpoint's folder); None when nobody does."""
        file = self._files.get(name)
        if file is None:
            return None
        self._sinks[name] = FileSink(file)
        return self._sinks[name]

    def by_file(self) -> dict[str, dict[str, str]]:
        """Digests that the streams gave, by file: what may be kept as long as the file stays as it is."""
        return {name: dict(sink.whole()) for name, sink in self._sinks.items()}

    def finish(self, kept: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, str]:
        """Hex digest of every tensor by name.

        Args:
            kept: Digests by file, from an earlier time, of files that were not streamed now; entries that the
                file's header does not name are passed over.

        Raises:
            CheckpointError: The files turn out to be damaged, or changed while they were read.
        """
        found = {name: digest for digests in self.by_file().values() for name, digest in digests.items()}
        for file, digests in (kept or {}).items():
            if file in self._files and file not in self._sinks:
                found |= {name: digest for name, digest in digests.items() if name in self._files[file].entries}
        for name in self._checkpoint.tensors:
            if name not in found:
                found[name] = self._read(name)
        return {name: found[name] for name in sorted(self._checkpoint.tensors)}

    def _read(self, name: str) -> str:
        info = self._checkpoint.tensors[name]
        hasher = TensorHasher(info.dtype, info.shape, values=False)
        width = max(1, info.numel // max(1, info.rows))
        for block in self._checkpoint.blocks(name, max(1, BLOCK_ELEMENTS // width)):
            hasher.update(block)
        return hasher.digest
