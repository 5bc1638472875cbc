"""Tensors that only mean something together: codes, scales, zero points.

What every scheme of quantisation inside safetensors needs: find companions by name, check what they are, and say what
they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fingerprint.checkpoint.derived import Derived, Window
from fingerprint.checkpoint.interface import TensorInfo
from fingerprint.checkpoint.stored import SafetensorsCheckpoint
from fingerprint.errors import MalformedCheckpoint


@dataclass(frozen=True)
class Packed:
    """A logical weight found in companion tensors.

    Attributes:
        derived: How to compute it.
        consumed: Stored tensors that it replaces.
        scheme: ``gptq-int4``, ``awq-int4``, ``fp8``, ...; the first word before the dash is the format.
    """

    derived: Derived
    consumed: tuple[str, ...]
    scheme: str


class Companions:
    """Stored tensors of one checkpoint, with what a scheme needs to read them."""

    def __init__(self, base: SafetensorsCheckpoint) -> None:
        self.base, self.names = base, base.tensors
        quantisation = base.config.get("quantization_config")
        self.config: Mapping[str, Any] = quantisation if type(quantisation) is dict else {}

    def stems(self, suffix: str) -> Iterator[str]:
        """``x`` for every tensor ``x + suffix``."""
        return (name[: -len(suffix)] for name in self.names if name.endswith(suffix) and len(name) > len(suffix))

    def view(self, name: str) -> torch.Tensor:
        """A stored tensor, zero-copy, in its shape."""
        info = self.names[name]
        return self.base.flat(name).view(info.shape) if info.numel else torch.empty(info.shape, dtype=info.dtype)

    def need(self, name: str, *, rank: int, dtypes: tuple[torch.dtype, ...]) -> TensorInfo:
        """The info of a companion that must be there.

        Raises:
            MalformedCheckpoint: It is absent, or of another rank or dtype.
        """
        info = self.names.get(name)
        if info is None or len(info.shape) != rank or info.dtype not in dtypes or not info.numel:
            got = "absent" if info is None else f"{info.stored} {info.shape}"
            raise unfit(name, got, f"rank {rank}, {' or '.join(str(dtype) for dtype in dtypes)}")
        return info

    def packed(self, name: str, shape: tuple[int, ...], window: Window, parts: tuple[str, ...], scheme: str) -> Packed:
        """A float32 weight over ``parts``."""
        info = TensorInfo(name, shape, torch.float32, scheme)
        return Packed(Derived(info, window, lambda: self._release(parts)), parts, scheme)

    def _release(self, parts: tuple[str, ...]) -> None:
        for name in parts:
            self.base.release(name)


def unfit(name: str, got: object, expected: object) -> MalformedCheckpoint:
    """The error for a companion that does not fit its codes."""
    return MalformedCheckpoint(
        "does not fit its quantised weight",
        where=name[:200],
        got=got,
        expected=expected,
        remedy="Save the quantised model again, or give the original.",
    )
