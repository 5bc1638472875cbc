"""``key-rotation/v1``: one account hands over to another.

Subject: ``successor-key``, SHA-256 of the successor's 32 public bytes. Both keys sign: the old one, because nobody
else may give its standing away; the new one, because nobody may be handed a past they did not agree to. When the old
key is lost, the hand-over must have happened on chain (a hotkey swap signed by the coldkey), and the successor alone
signs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from attest.errors import MalformedInput
from attest.keys.hotkey import Hotkey
from attest.predicates.fields import Account, Block, Count, Predicate, Prose
from attest.record import Choice, Nested, Nullable, Record


class Why(StrEnum):
    """Reason for the hand-over."""

    PLANNED = "planned"
    COMPROMISED = "compromised"
    LOST = "lost"


@dataclass(frozen=True)
class ChainEvidence(Record):
    """Where on chain the swap stands."""

    block: Block
    extrinsic_index: Count


@dataclass(frozen=True)
class KeyRotation(Predicate):
    """A hand-over; the context's hotkey is the old key, or the successor when there is chain evidence."""

    predecessor: Annotated[Account, Nested(Account)]
    successor: Annotated[Account, Nested(Account)]
    why: Annotated[Why, Choice(Why)]
    evidence: Annotated[ChainEvidence | None, Nullable(Nested(ChainEvidence))]
    note: Prose

    @property
    def must_sign(self) -> tuple[Hotkey, ...]:
        """The keys without which the statement is worth nothing."""
        if self.evidence is not None:
            return (self.successor.key,)
        return (self.predecessor.key, self.successor.key)

    def agree(self) -> None:
        """Two different accounts, one of them speaking."""
        if self.predecessor == self.successor:
            raise MalformedInput("a key cannot succeed itself", where="KeyRotation.successor")
        speaker = self.successor if self.evidence is not None else self.predecessor
        if self.context.signer != speaker.key:
            raise MalformedInput(
                "the wrong key speaks", where="KeyRotation.context", got=self.context.signer, expected=speaker.key
            )
