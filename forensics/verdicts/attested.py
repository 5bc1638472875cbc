"""What was attested about a model: where the chain binds a claim to it, and which parents were declared.

A claim whose attestation is anchored was made at the anchor, which may be long before its commitment (judgement rule
3). Attestations only ever move a claim to an earlier place; whoever attests nothing loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attest.errors import AttestError
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Scheme
from detectors.copy import Declared, Place

if TYPE_CHECKING:
    from ..attestations.service import Attestations


class Attested:
    """Attestations on one subnet.

    Args:
        attestations: All of them.
        netuid: The subnet; the service's own when None.
    """

    def __init__(self, attestations: Attestations, *, netuid: int | None = None) -> None:
        self._attestations, self._netuid = attestations, netuid

    def place(self, root: str, hotkey: str) -> Place | None:
        """Where this hotkey's claim to this content is bound, if it is; claims by handed-over keys do not count."""
        standings = self._attestations.standings(root, netuid=self._netuid)
        places = [r.position for r in standings.ranked if r.claim.hotkey.address == hotkey and r.position is not None]
        first = min(places, default=None)
        return None if first is None else Place(first.block, first.extrinsic_index)

    def origin(self, hotkey: str) -> str:
        """The hotkey that its owner started with, through signed hand-overs."""
        if self._netuid is None:
            return hotkey
        try:
            account = Hotkey(Scheme.SR25519, hotkey)  # chains do not say the scheme, and this is what bittensor makes
        except AttestError:
            return hotkey
        return self._attestations.history(self._netuid).origin(account).address

    def declared(self, root: str) -> Sequence[Declared]:
        """Parents that were declared for this content, with what measuring said of each."""
        graph = self._attestations.lineages.graph()
        edges = (*graph.contradicted, *graph.ancestry(root))
        found = {e.parent: str(e.judgement) for e in edges if e.child == root and e.declared is not None}
        return [Declared(parent, judgement) for parent, judgement in sorted(found.items())]
