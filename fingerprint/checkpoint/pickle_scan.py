"""Looks at a torch file's ``data.pkl`` without running it.

A pickle is a program. Before torch's weights-only loader sees one (in a process of its own), its opcodes are read: only
those that state dicts need, only globals that rebuild dense tensors, and a bounded number of them. So the usual attack
is refused in milliseconds with the global's name, and never executed (pickletools; torch/_weights_only_unpickler.py).
"""

from __future__ import annotations

import io
import pickletools
import re

from fingerprint.checkpoint.limits import Limits
from fingerprint.errors import CheckpointTooLarge, MalformedCheckpoint, UnsupportedCheckpoint

_OPCODES = """
    PROTO STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINSTRING GLOBAL
    REDUCE BUILD BINPERSID EMPTY_DICT EMPTY_LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 SETITEM SETITEMS APPEND
    APPENDS BINPUT LONG_BINPUT BINGET LONG_BINGET
"""
OPCODES = frozenset(_OPCODES.split())
"""What torch.save writes for dictionaries of tensors, all of which the weights-only loader takes."""

_GLOBALS = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils _rebuild_(tensor_v2|tensor_v3|tensor|parameter|parameter_with_state)"
    r"|torch\.nn\.parameter Parameter"
    r"|torch (Float|Double|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)Storage"
    r"|torch\.storage (Untyped|Typed)Storage"
    r"|torch (Size|device|Tensor|u?int(8|16|32|64)|bool|bfloat16|float(16|32|64)|float8_\w+)"
    r"|torch\.serialization _get_layout"
    r"|torch\._tensor _rebuild_from_type_v2"
)
_REMEDY = "Convert the checkpoint to safetensors where you trust it, and give that."


def check_pickle(data: bytes, *, where: str, limits: Limits) -> None:
    """Refuse a pickle that does anything but rebuild tensors.

    Args:
        data: The pickle.
        where: File and member for messages.
        limits: Bounds on opcodes.

    Raises:
        UnsupportedCheckpoint: An opcode or global that state dicts do not need.
        CheckpointTooLarge: Too many opcodes.
        MalformedCheckpoint: No pickle, or bytes after it.
    """
    stream = io.BytesIO(data)
    try:
        for count, (opcode, argument, position) in enumerate(pickletools.genops(stream)):
            if count >= limits.pickle_opcodes:
                raise CheckpointTooLarge(
                    "pickle too long", where=where, got=f"> {count} opcodes", expected=f"<= {limits.pickle_opcodes}"
                )
            if opcode.name not in OPCODES:
                raise _refused("opcode", where, position, opcode.name)
            if opcode.name == "GLOBAL" and not _GLOBALS.fullmatch(str(argument)):
                raise _refused("global", where, position, str(argument))
    except (ValueError, IndexError, OverflowError, UnicodeError) as error:
        raise MalformedCheckpoint("no whole pickle", where=where, got=str(error), expected="a pickle") from None
    if rest := len(data) - stream.tell():
        raise MalformedCheckpoint("bytes after the pickle", where=where, got=rest, expected=0)


def _refused(what: str, where: str, position: int | None, got: str) -> UnsupportedCheckpoint:
    return UnsupportedCheckpoint(
        f"pickle {what} that could run code",
        where=f"{where}:byte {position}",
        got=got,
        expected="only what rebuilds tensors",
        remedy=_REMEDY,
    )
