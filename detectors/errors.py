"""Everything this package raises, as one tree.

DetectorError
└── MalformedFacts          the facts contradict themselves or a limit; the message names which row or field
    └── DesignMismatch      the exposure on record is not the one that was drawn from its key

Too little data is no error: a detector that cannot decide says so in its answer, for unknown is not guilty.
"""

from __future__ import annotations

from fingerprint.errors import ActionableError


class DetectorError(ActionableError):
    """Base of the tree."""


class MalformedFacts(DetectorError):
    """The facts contradict themselves or a limit."""


class DesignMismatch(MalformedFacts):
    """The exposure on record is not the one that was drawn from its key."""
