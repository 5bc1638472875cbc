"""What a verification says: facts for programs, sentences for people."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .kinds import Kind


@dataclass
class Report:
    """Built up while an artefact is checked; an artefact that fails raises instead.

    Args:
        kind: What the artefact is.
        facts: Its contents, as JSON.
        proven: What holds now, a sentence each.
        not_proven: What one might think holds, and why it does not follow.
    """

    kind: Kind
    facts: dict[str, Any] = field(default_factory=dict)
    proven: list[str] = field(default_factory=list)
    not_proven: list[str] = field(default_factory=list)

    def take(self, other: Report) -> None:
        """Add what a part of the artefact proves."""
        self.facts |= other.facts
        self.proven += other.proven
        self.not_proven += other.not_proven

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "kind": str(self.kind),
            "verified": True,
            "proven": self.proven,
            "not_proven": self.not_proven,
            **self.facts,
        }
