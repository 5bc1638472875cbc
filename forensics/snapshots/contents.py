"""What a snapshot says: one verdict for every registered uid, also for those that committed nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from attest.canonical import write
from attest.errors import MalformedInput
from attest.predicates.verdict import PolicyRef, Status, UidVerdict

from ..store.blobs import digest_of
from ..verdicts.store import Current
from ..verdicts.verdict import NEUTRAL, said

NO_COMMITMENT: Final = "no_commitment"


class Registered(Protocol):
    """A uid and whose it is at this block."""

    @property
    def uid(self) -> int:
        """Seat on the subnet; identifies nobody."""
        ...

    @property
    def hotkey(self) -> str:
        """Who sits there."""
        ...

    @property
    def coldkey(self) -> str:
        """Who owns the hotkey; empty where the chain names nobody."""
        ...


def assemble(neurons: Iterable[Registered], current: Mapping[str, Current]) -> tuple[UidVerdict, ...]:
    """A verdict for every uid, by hotkey; whoever left the subnet is not in it.

    Args:
        neurons: Everybody registered at the block.
        current: Newest submission and verdict by hotkey.

    Raises:
        MalformedInput: One uid or hotkey comes twice.
    """
    seats = sorted(neurons, key=lambda neuron: neuron.uid)
    for name, seen in (("uid", [n.uid for n in seats]), ("hotkey", [n.hotkey for n in seats])):
        if len(set(seen)) != len(seen):
            raise MalformedInput(f"one {name} is registered twice", where="neurons")
    return tuple(_one(neuron, current.get(neuron.hotkey)) for neuron in seats)


def content_digest(policy: PolicyRef, verdicts: Iterable[UidVerdict]) -> str:
    """Digest of what a snapshot says, apart from when it says so: a new one is due when this changes."""
    return digest_of(write({"policy": policy.write(), "verdicts": [verdict.write() for verdict in verdicts]}))


def _one(neuron: Registered, found: Current | None) -> UidVerdict:
    if found is not None and found.verdict is not None:
        return found.verdict.at(neuron.uid)
    subject = found.subject if found is not None else None
    reason = NO_COMMITMENT if subject is None else subject.unknown or "pending"
    return UidVerdict(
        uid=neuron.uid,
        hotkey=neuron.hotkey,
        revision=(subject.revision or None) if subject is not None else None,
        content_root=subject.content_root if subject is not None else None,
        status=Status.UNKNOWN,
        multiplier=NEUTRAL,
        permanent=False,
        reasons=(said(reason),),
        parents=(),
        cluster=None,
        case=None,
    )
