"""Everything this package raises, as one tree.

FingerprintError
├── CheckpointError            the files cannot be trusted or understood     (exit 3)
│   ├── MalformedCheckpoint    bytes contradict their own header or index
│   ├── UnsupportedCheckpoint  a format, dtype or file kind this version refuses
│   └── CheckpointTooLarge     a limit was reached before anything was allocated
├── FingerprintFileError       a fingerprint file is damaged or from an unknown algorithm (exit 3)
└── CheckpointUnavailable      the files are not there, or could not be read (exit 4)

Each error says what, where, got, expected and what to do, so that a message can be acted on without the source.
"""

from __future__ import annotations


class ActionableError(Exception):
    """What, where, got, expected and remedy as one line a person can act on; base of this tree and of ``detectors``'.

    Args:
        what: What is wrong, in a few words.
        where: File (and field, after a colon) that is at fault.
        got: The value found.
        expected: The value or range that would have been accepted.
        remedy: What the user can do next.
    """

    def __init__(
        self, what: str, *, where: str = "", got: object = "", expected: object = "", remedy: str = ""
    ) -> None:
        self.what, self.where, self.remedy = what, where, remedy
        self.got, self.expected = _short(got), _short(expected)
        super().__init__(self._line())

    def _line(self) -> str:
        parts = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.got:
            parts.append(f"got {self.got}")
        if self.expected:
            parts.append(f"expected {self.expected}")
        line = ", ".join(parts)
        return f"{line}. {self.remedy}" if self.remedy else line


class FingerprintError(ActionableError):
    """Base of the tree."""


class CheckpointError(FingerprintError):
    """The files cannot be trusted or understood."""


class MalformedCheckpoint(CheckpointError):
    """Bytes contradict their own header, index or declared sizes."""


class UnsupportedCheckpoint(CheckpointError):
    """A format, dtype or kind of file that is refused on purpose or not yet read."""


class CheckpointTooLarge(CheckpointError):
    """A limit was reached; checked before the allocation it guards."""


class FingerprintFileError(FingerprintError):
    """A fingerprint file is damaged, truncated or made by an unknown algorithm."""


class CheckpointUnavailable(FingerprintError):
    """The files are absent or unreadable; unknown is not guilty."""


def _short(value: object, limit: int = 120) -> str:
    """Attacker-controlled text, made printable and short before it reaches a terminal or a log."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[: limit * 2])
    return text if len(text) <= limit else text[: limit - 1] + "…"
