"""Everything this package raises, as one tree.

AttestError
├── MalformedInput          malformed_input          not the strict form of what it claims to be
│   ├── InputTooLarge       input_too_large          a limit was reached before anything was allocated
│   └── NotCanonical        not_canonical            valid, but not in the one spelling that may be signed
├── UnsupportedInput        unsupported_input        a payload type, predicate or scheme that is refused on purpose
├── InvalidKey              invalid_key              no honest key looks like this
├── InvalidSignature        invalid_signature        the bytes were not signed by that key
│   └── ThresholdNotMet     threshold_not_met        fewer distinct keys signed than are needed
├── ContextMismatch         context_mismatch         signed for another network, subnet, competition or hotkey
├── KeyRotated              key_rotated              the key had been handed over by that block
├── RotationRefused         rotation_refused         a hand-over that was not agreed by both keys, or forks, or cycles
├── CommitmentMismatch      commitment_mismatch      a sealed claim is opened with something else than was sealed
├── ContentMismatch         content_mismatch         the statement speaks of other bytes than those at hand
├── LineageError            lineage_refused          a lineage record contradicts itself
│   ├── LineageCycle        lineage_cycle            a model cannot descend from itself
│   └── ParentLaterThanChild parent_later_than_child a parent must have been bound before its child
├── LogError                log                      the transparency log; its branch is drawn in attest/log/errors.py
└── BundleError             bundle_refused           a model-signing bundle or the folder it speaks of

Each error says what, where, got, expected and what to do, so that a message can be acted on without the source.
No error ever carries a secret: ``got`` is only used for public material.
"""

from __future__ import annotations

from typing import ClassVar


class AttestError(Exception):
    """Base of the tree; ``str()`` is one line a person can act on, ``code`` one word a program can.

    Args:
        what: What is wrong, in a few words.
        where: File, field or artefact that is at fault.
        got: The value found; public material only.
        expected: The value or range that would have been accepted.
        remedy: What the user can do next.
        code: Overrides the class's code, for a refusal that has its own name.
    """

    code: ClassVar[str] = "attest_error"

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        got: object = "",
        expected: object = "",
        remedy: str = "",
        code: str | None = None,
    ) -> None:
        self.what, self.where, self.remedy = what, where, remedy
        self.got, self.expected = _short(got), _short(expected)
        if code is not None:
            self.code = code  # type: ignore[misc]  # the instance's own name wins over its class's
        super().__init__(self._line())

    def _line(self) -> str:
        parts = [f"{_short(self.where)}: {self.what}" if self.where else self.what]
        if self.got:
            parts.append(f"got {self.got}")
        if self.expected:
            parts.append(f"expected {self.expected}")
        line = ", ".join(parts)
        return f"{line}. {self.remedy}" if self.remedy else line


class MalformedInput(AttestError):
    """The bytes are not the strict form of what they claim to be."""

    code = "malformed_input"


class InputTooLarge(MalformedInput):
    """A limit was reached; checked before the allocation it guards."""

    code = "input_too_large"


class NotCanonical(MalformedInput):
    """Valid, but not in the one spelling that may be signed."""

    code = "not_canonical"


class UnsupportedInput(AttestError):
    """A payload type, predicate or scheme that is refused on purpose or not known to this version."""

    code = "unsupported_input"


class InvalidKey(AttestError):
    """No honest key looks like this: wrong length, not a point, small order, non-canonical."""

    code = "invalid_key"


class InvalidSignature(AttestError):
    """The bytes were not signed by that key."""

    code = "invalid_signature"


class ThresholdNotMet(InvalidSignature):
    """Fewer distinct keys signed than are needed."""

    code = "threshold_not_met"


class ContextMismatch(AttestError):
    """The statement is signed for another network, subnet, competition or hotkey; it may be a replay."""

    code = "context_mismatch"


class KeyRotated(AttestError):
    """The key had been handed over by the block that matters."""

    code = "key_rotated"


class RotationRefused(AttestError):
    """A hand-over that was not agreed by both keys, or that forks, or that leads back to itself."""

    code = "rotation_refused"


class CommitmentMismatch(AttestError):
    """A commitment is opened with something else than was committed to."""

    code = "commitment_mismatch"


class ContentMismatch(AttestError):
    """A statement speaks of other bytes than those at hand."""

    code = "content_mismatch"


class LineageError(AttestError):
    """A lineage record contradicts itself or the roots it names."""

    code = "lineage_refused"


class LineageCycle(LineageError):
    """A model cannot descend from itself."""

    code = "lineage_cycle"


class ParentLaterThanChild(LineageError):
    """A parent must have been bound before its child."""

    code = "parent_later_than_child"


class BundleError(AttestError):
    """A model-signing bundle is refused, or does not speak of the folder at hand."""

    code = "bundle_refused"


def _short(value: object, limit: int = 160) -> str:
    """Attacker-controlled text, made printable and short before it reaches a terminal or a log."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[: limit * 2])
    return text if len(text) <= limit else text[: limit - 1] + "…"
