"""What the tensors of a checkpoint do: roles, layers and experts, whatever they are called and however they lie."""

from __future__ import annotations

from .like import recognise_like
from .reading import read, read_blocks
from .recognise import recognise

__all__ = ["read", "read_blocks", "recognise", "recognise_like"]
