"""What changed between two snapshots, and the message that says so."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from attest import envelope as dsse
from attest.errors import AttestError

from ..errors import StoreCorrupt

TYPE: Final = "verdicts.changed"
MOST: Final = 100
"""Changes spelled out in one message; whoever wants all reads the snapshot."""


@dataclass(frozen=True)
class Change:
    """A verdict that is another than before.

    Args:
        hotkey: Whose.
        revision: Of the model; None without a commitment.
        status: Now; None when the hotkey is gone.
        multiplier: Now.
        reasons: Codes, now.
        before: Status before; None when there was none.
    """

    hotkey: str
    revision: str | None
    status: str | None
    multiplier: str | None
    reasons: tuple[str, ...]
    before: str | None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "hotkey": self.hotkey,
            "revision": self.revision,
            "status": self.status,
            "multiplier": self.multiplier,
            "reasons": list(self.reasons),
            "before": self.before,
        }


def predicate_of(envelope: bytes, *, where: str) -> dict[str, Any]:
    """What a stored snapshot says.

    Raises:
        StoreCorrupt: It is none.
    """
    try:
        found: dict[str, Any] = json.loads(dsse.read(envelope, where=where).payload)["predicate"]
        return found
    except (AttestError, ValueError, KeyError, TypeError) as error:
        raise StoreCorrupt("a stored snapshot cannot be read", where=where, got=type(error).__name__) from None


def between(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Change]:
    """Changes from one snapshot's predicate to the next's, in the order of hotkeys.

    Args:
        before: None for the first.
        after: The newer.
    """
    old = {} if before is None else {v["hotkey"]: v for v in before["verdicts"]}
    new = {v["hotkey"]: v for v in after["verdicts"]}
    changed = [_now(v, old.get(hotkey)) for hotkey, v in new.items() if _telling(v) != _telling(old.get(hotkey))]
    gone = [
        Change(hotkey, v["revision"], None, None, (), v["status"]) for hotkey, v in old.items() if hotkey not in new
    ]
    return sorted([*changed, *gone], key=lambda change: change.hotkey)


def message(after: Mapping[str, Any], changes: Iterable[Change]) -> bytes:
    """The body of a message, as bytes that are signed and sent."""
    listed = [change.document() for change in changes]
    document = {
        "type": TYPE,
        "timestamp": after["issued_at"],
        "data": {
            "genesis": after["genesis"],
            "netuid": after["netuid"],
            "sequence": after["sequence"],
            "block": after["block"],
            "snapshot": f"/v1/netuids/{after['netuid']}/verdicts",
            "changes": listed[:MOST],
            "more": max(0, len(listed) - MOST),
        },
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _now(verdict: Mapping[str, Any], old: Mapping[str, Any] | None) -> Change:
    return Change(
        hotkey=verdict["hotkey"],
        revision=verdict["revision"],
        status=verdict["status"],
        multiplier=verdict["multiplier"],
        reasons=tuple(reason["code"] for reason in verdict["reasons"]),
        before=None if old is None else old["status"],
    )


def _telling(verdict: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
    """What must differ for a change to be told."""
    return None if verdict is None else (verdict["revision"], verdict["status"], verdict["multiplier"])
