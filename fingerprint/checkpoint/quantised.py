"""Quantised weights inside safetensors, put back together as the matrices they stand for.

Formats are told by the names and shapes of companion tensors (``qweight`` with ``scales``, ``weight`` with
``weight_scale``), never by the config alone: it is the competitor's. What is recognised but not read is refused by
name, so that packed codes are never mistaken for weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fingerprint.checkpoint import bitsandbytes, packed_int, scaled
from fingerprint.checkpoint.companions import Companions, Packed
from fingerprint.checkpoint.derived import DerivedCheckpoint
from fingerprint.checkpoint.interface import Checkpoint
from fingerprint.checkpoint.stored import SafetensorsCheckpoint
from fingerprint.errors import MalformedCheckpoint, UnsupportedCheckpoint

Scheme = Callable[[Companions], Iterator[Packed]]
SCHEMES: tuple[Scheme, ...] = (packed_int.find, bitsandbytes.find, scaled.find)


def dequantised(base: SafetensorsCheckpoint) -> Checkpoint:
    """``base``, with every quantised weight as the float32 matrix (out x in) that it stands for.

    Raises:
        MalformedCheckpoint: Companions that do not fit, or two schemes that claim one tensor.
        UnsupportedCheckpoint: A scheme that is recognised but not read.
    """
    companions = Companions(base)
    found = [packed for scheme in SCHEMES for packed in scheme(companions)]
    _refuse_unread(companions)
    if not found:
        return base
    consumed = [name for packed in found for name in packed.consumed]
    made = {packed.derived.info.name for packed in found}
    keep = [name for name in base.tensors if name not in set(consumed)]
    if len(set(consumed)) != len(consumed) or made & set(keep) or len(made) != len(found):
        raise MalformedCheckpoint("tensor claimed twice", where=base.path.name, expected="one meaning for each tensor")
    family = found[0].scheme.split("-")[0]
    return DerivedCheckpoint(
        base.path,
        [packed.derived for packed in found],
        format=family if family in {"gptq", "awq"} else base.format,
        files=base.files,
        config=base.config,
        base=base,
        keep=keep,
        notes=sorted({f"dequantised:{packed.scheme}" for packed in found}),
    )


_UNREAD = {
    "_blocks": ("_scales", "mxfp4"),
    ".Qidxs": ("", "quip"),
    ".codebooks": ("", "aqlm"),
    ".W_q": ("", "hqq"),
    ".B": (".s", "marlin"),
}


def _refuse_unread(companions: Companions) -> None:
    for suffix, (partner, scheme) in _UNREAD.items():
        for stem in companions.stems(suffix):
            if f"{stem}{partner}" in companions.names or not partner:
                raise UnsupportedCheckpoint(
                    f"{scheme} weights are not read",
                    where=f"{stem}{suffix}"[:200],
                    got=scheme,
                    expected="gptq, awq, compressed-tensors, fp8, int8 or bitsandbytes",
                    remedy="Dequantise them, or give the original.",
                )
