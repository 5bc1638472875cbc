"""A Fingerprint on disk: a safetensors file that describes itself, and that is believed only when all of it agrees.

The container is safetensors (https://github.com/huggingface/safetensors#format), written by its library and read by
our own strict parser. Its metadata holds one key, so that equal fingerprints are equal bytes: a JSON document with the
schema, the algorithm, everything that is not an array, and SHA-256 over document and arrays. An unknown algorithm is
refused: numbers of another algorithm would compare without complaint, and mean nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch

from fingerprint.checkpoint.limits import DEFAULT_LIMITS
from fingerprint.checkpoint.memory import read_bounded
from fingerprint.checkpoint.safetensors import parse_header
from fingerprint.checkpoint.strict_json import parse_object
from fingerprint.columns import Arrays, Document, decode, encode
from fingerprint.content import length_prefixed
from fingerprint.errors import CheckpointError, FingerprintFileError
from fingerprint.fingerprint import Fingerprint
from fingerprint.plan import ALGORITHM

SCHEMA = "model-forensics/fingerprint/v1"
METADATA_KEY = "fingerprint"
MAX_BYTES = 64 << 20
"""An 8B model needs under 1 MB, a mixture of 6,000 experts about 12 MB."""

_REMEDY = "Scan the checkpoint again."
_DTYPES = {
    torch.uint8: np.uint8,
    torch.uint16: np.uint16,
    torch.int32: np.int32,
    torch.uint32: np.uint32,
    torch.int64: np.int64,
    torch.uint64: np.uint64,
    torch.float16: np.float16,
    torch.float32: np.float32,
    torch.float64: np.float64,
}


def dumps(fingerprint: Fingerprint) -> bytes:
    """The file's bytes; equal fingerprints give equal bytes."""
    document, arrays = encode(fingerprint)
    body = {"schema": SCHEMA, "algorithm": fingerprint.algorithm, "body": document}
    text = _canonical({**body, "sha256": _checksum(body, arrays)})
    return bytes(safetensors.numpy.save(arrays, metadata={METADATA_KEY: text}))


def loads(data: bytes, *, where: str = "fingerprint") -> Fingerprint:
    """Read a fingerprint from bytes.

    Args:
        data: The file.
        where: Name for messages.

    Raises:
        FingerprintFileError: Damaged, truncated, made by an unknown algorithm, or no fingerprint at all.
    """
    if len(data) > MAX_BYTES:
        raise FingerprintFileError("too large", where=where, got=f"{len(data)} bytes", expected=f"<= {MAX_BYTES}")
    document, arrays = _open(data, where)
    if document.get("schema") != SCHEMA:
        raise FingerprintFileError(
            "unknown schema", where=where, got=document.get("schema"), expected=SCHEMA, remedy=_REMEDY
        )
    if document.get("algorithm") != ALGORITHM:
        got = document.get("algorithm")
        raise FingerprintFileError("unknown algorithm", where=where, got=got, expected=ALGORITHM, remedy=_REMEDY)
    checksum = document.pop("sha256", None)
    if checksum != _checksum(document, arrays):
        raise FingerprintFileError(
            "checksum differs", where=where, got=checksum, expected="SHA-256 of the contents", remedy=_REMEDY
        )
    try:
        fingerprint = decode(document["body"], arrays)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, AttributeError) as error:
        raise FingerprintFileError("contents contradict themselves", where=where, got=error, remedy=_REMEDY) from None
    if fingerprint.algorithm != ALGORITHM:
        raise FingerprintFileError("algorithm named twice, differently", where=where, got=fingerprint.algorithm)
    return fingerprint


def save(fingerprint: Fingerprint, path: Path | str) -> None:
    """Write a fingerprint; a reader sees the old file or the new one, never half of one."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}-{secrets.token_hex(6)}")
    try:
        temporary.write_bytes(dumps(fingerprint))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load(path: Path | str) -> Fingerprint:
    """Read a fingerprint file.

    Raises:
        FingerprintFileError: Damaged, truncated, made by an unknown algorithm, or no fingerprint at all.
        CheckpointUnavailable: Not there, or not readable.
    """
    source = Path(path)
    return loads(read_bounded(source, MAX_BYTES), where=source.name)


def _open(data: bytes, where: str) -> tuple[Document, Arrays]:
    """Document and arrays of a container whose header was checked against its data."""
    length = struct.unpack("<Q", data[:8])[0] if len(data) >= 8 else len(data)
    if length > len(data) - 8:
        raise FingerprintFileError(
            "truncated, or no fingerprint file", where=where, got=f"{len(data)} bytes", expected="a safetensors file"
        )
    header, body = data[8 : 8 + length], memoryview(data)[8 + length :]
    try:
        entries = parse_header(header, data_bytes=len(body), where=where)
        metadata = parse_object(header, where=where, limits=DEFAULT_LIMITS, max_bytes=MAX_BYTES).get("__metadata__", {})
        if set(metadata) != {METADATA_KEY}:
            raise FingerprintFileError("no fingerprint file", where=where, expected=f"metadata key {METADATA_KEY}")
        text = metadata[METADATA_KEY].encode("utf-8")
        document = parse_object(text, where=f"{where}:{METADATA_KEY}", limits=DEFAULT_LIMITS, max_bytes=MAX_BYTES)
        arrays = {entry.info.name: _array(body[entry.begin : entry.end], entry.info, where) for entry in entries}
    except CheckpointError as error:
        raise FingerprintFileError("damaged", where=where, got=error, remedy=_REMEDY) from None
    return document, arrays


def _array(data: memoryview, info: Any, where: str) -> np.ndarray:
    dtype = _DTYPES.get(info.dtype)
    if dtype is None or not info.shape:
        raise FingerprintFileError("array of an unexpected kind", where=f"{where}:{info.name}", got=info.stored)
    return np.frombuffer(data, dtype=np.dtype(dtype).newbyteorder("<")).reshape(info.shape)


def _canonical(document: Document) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _checksum(document: Document, arrays: Arrays) -> str:
    """SHA-256 over the canonical document and, by name, each array's dtype, shape and bytes."""
    digest = hashlib.sha256(length_prefixed(_canonical(document).encode()))
    for name, array in sorted(arrays.items()):
        kind = f"{name}|{array.dtype.kind}{array.dtype.itemsize}|{array.shape}"
        digest.update(length_prefixed(kind.encode()))
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
