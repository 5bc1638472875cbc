"""Evidence as a document that everybody digests alike: RFC 8785 JSON without floats.

A float has many spellings and rounds differently where it was computed differently. So fractions are decimal strings
of at most ``DIGITS`` significant digits, as in every signed payload of this project, and the rest are integers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import rfc8785

from ..errors import MalformedFacts

DIGITS = 9
"""Significant digits: more than any statistic here carries, fewer than differ between platforms."""
Document = Mapping[str, Any]


def decimal(value: float) -> str:
    """``value`` as a decimal string: ``0.05``, ``1e-9``, ``-3.2``; never NaN or infinity.

    Raises:
        MalformedFacts: ``value`` is not finite.
    """
    if not math.isfinite(value):
        raise MalformedFacts("not a number", where="evidence", got=value, expected="a finite value")
    text = f"{value:.{DIGITS}g}"
    mantissa, mark, exponent = text.partition("e")
    if text in ("0", "-0"):
        return "0"
    return f"{mantissa}e{int(exponent)}" if mark else mantissa


def digest_of(document: Document) -> str:
    """``sha256:`` and 64 hex digits of the canonical bytes.

    Raises:
        MalformedFacts: The document holds a float, or something that JSON lacks.
    """
    _refuse_floats(document, "evidence")
    try:
        return "sha256:" + hashlib.sha256(rfc8785.dumps(dict(document))).hexdigest()
    except rfc8785.CanonicalizationError as error:
        raise MalformedFacts("cannot be written canonically", where="evidence", got=str(error)) from None


def _refuse_floats(value: Any, where: str) -> None:
    if isinstance(value, float):
        raise MalformedFacts("a float", where=where, got=value, expected="a decimal string")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_floats(inner, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _refuse_floats(inner, f"{where}[{index}]")
