"""More entries of one operator than a competition allows.

Owning several hotkeys is no wrongdoing where a competition allows it. Where it allows one entry an owner, or a few, the
others do not count; which they are follows from the chain alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from .errors import MalformedFacts
from .evidence import Document, Exculpation, Finding, Kind, Party, digest_of

DETECTOR: Final = "operator@1"
CODE: Final = "operator.further_entry"
_CERTAIN: Final = 1e-300


@dataclass(frozen=True)
class Held:
    """An entry and its owner.

    Args:
        hotkey: Whose entry it is.
        coldkey: Who owns the hotkey.
        revision: Commit, 40 hex digits.
        block: Block of the commitment.
        extrinsic: Index in that block.
    """

    hotkey: str
    coldkey: str
    revision: str
    block: int
    extrinsic: int

    @property
    def place(self) -> tuple[int, int, str]:
        """Sort key; the hotkey only makes the order total."""
        return (self.block, self.extrinsic, self.hotkey)

    @property
    def party(self) -> Party:
        """As a party of a finding."""
        return Party(Kind.SUBMISSION, f"{self.hotkey}@{self.revision}" if self.revision else self.hotkey)


def further(entries: Iterable[Held], *, allowed: int, newest: bool = False) -> dict[str, tuple[Finding, Document]]:
    """Entries beyond what an owner may have, by hotkey, each with its finding and its evidence.

    Args:
        entries: The newest entry of every hotkey on one subnet.
        allowed: How many an owner may have, at least 1.
        newest: Keep the newest ones instead of the earliest.
    """
    if allowed < 1:
        raise MalformedFacts("nobody may enter", where="allowed", got=allowed, expected="at least 1")
    owned: dict[str, list[Held]] = defaultdict(list)
    for entry in entries:
        if entry.coldkey:
            owned[entry.coldkey].append(entry)
    found: dict[str, tuple[Finding, Document]] = {}
    for _, mine in sorted(owned.items()):
        ordered = sorted(mine, key=lambda entry: entry.place, reverse=newest)
        for entry in ordered[allowed:]:
            found[entry.hotkey] = _finding(entry, ordered[:allowed], allowed=allowed, newest=newest)
    return found


def _finding(entry: Held, kept: list[Held], *, allowed: int, newest: bool) -> tuple[Finding, Document]:
    evidence: Document = {
        "schema": "operator/evidence/v1",
        "coldkey": entry.coldkey,
        "allowed": allowed,
        "keeps": "newest" if newest else "earliest",
        "entry": _document(entry),
        "kept": [_document(one) for one in kept],
    }
    finding = Finding(
        detector=DETECTOR,
        code=CODE,
        subject=entry.party,
        object=kept[0].party,
        log10_likelihood_ratio=0.0,
        p_value=_CERTAIN,
        null="owners/coldkey",
        evidence=digest_of(evidence),
        measured={"proof": "same_coldkey", "allowed": allowed, "confidence": 1.0},
        exculpatory=(Exculpation("no_wrongdoing", "owning several hotkeys wrongs nobody; the competition limits it"),),
    )
    return finding, evidence


def _document(entry: Held) -> Document:
    return {"hotkey": entry.hotkey, "revision": entry.revision, "block": entry.block, "extrinsic": entry.extrinsic}
