"""Everything this package raises, as one tree.

DetectorError
└── MalformedFacts          the facts contradict themselves or a limit; the message names which row or field
    └── DesignMismatch      the exposure on record is not the one that was drawn from its key

Too little data is no error: a detector that cannot decide says so in its answer, for unknown is not guilty.
"""

from __future__ import annotations


class DetectorError(Exception):
    """Base of the tree; ``str()`` is one line a person can act on.

    Args:
        what: What is wrong, in a few words.
        where: Field, row or parameter that is at fault.
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
        parts += [f"got {self.got}"] if self.got else []
        parts += [f"expected {self.expected}"] if self.expected else []
        line = ", ".join(parts)
        return f"{line}. {self.remedy}" if self.remedy else line


class MalformedFacts(DetectorError):
    """The facts contradict themselves or a limit."""


class DesignMismatch(MalformedFacts):
    """The exposure on record is not the one that was drawn from its key."""


def _short(value: object, limit: int = 120) -> str:
    """Text that miners wrote, made printable and short before it reaches a terminal or a log."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[: limit * 2])
    return text if len(text) <= limit else text[: limit - 1] + "…"
