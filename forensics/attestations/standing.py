"""Who was first with a model, of all who say so: ``attest.priority`` over what is stored.

A claim is bound by the earliest anchored checkpoint that holds it, an opened one by that of its seal, and a hotkey
also by its commitments on chain. A key that had been handed over speaks for nobody from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from attest.errors import KeyRotated
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Scheme
from attest.keys.rotation import KeyHistory
from attest.predicates.ownership import Form
from attest.priority import Binding, By, Claim, Position, Ranked, effective, rank

from ..known.claim import Submission
from .record import Record

Bind = Callable[[int], Binding | None]
"""The earliest place on chain that binds a leaf."""
Find = Callable[[str], Record | None]


@dataclass(frozen=True)
class Standings:
    """All claims of one content, ranked, and those that do not count.

    Args:
        ranked: By effective position.
        rotated: Digests of claims by keys that had been handed over by then.
    """

    ranked: tuple[Ranked, ...]
    rotated: tuple[str, ...] = ()

    def of(self, digest: str) -> str:
        """The standing of one claim, in a word."""
        if digest in self.rotated:
            return "key-rotated"
        return next((str(r.standing) for r in self.ranked if r.claim.digest == digest), "unknown")

    @property
    def position(self) -> Position | None:
        """Where the content was first bound."""
        return self.ranked[0].position if self.ranked else None


def standings(
    records: Iterable[Record],
    submissions: Sequence[Submission],
    *,
    root: str,
    genesis: str,
    bind: Bind,
    find: Find,
    history: Callable[[int], KeyHistory],
    netuid: int | None,
) -> Standings:
    """Rank claims of one content on one chain.

    A hand-over counts on the subnet it was signed for: every claim is judged by the hand-overs of its own.

    Args:
        records: Ownership claims of this content, open or opened.
        submissions: Commitments on chain that named a revision with this content.
        root: Content root.
        genesis: Chain.
        bind: Anchors.
        find: Finds the seal that a claim opens.
        history: Hand-overs between keys on a subnet.
        netuid: The subnet all claims are of, whose hand-overs tell who is one owner; None when they are of several.
    """
    open_ones = [record for record in records if record.form != Form.SEALED]
    subnets = {record.digest: record.netuid for record in open_ones}
    here = KeyHistory() if netuid is None else history(netuid)
    claims = [_attested(record, root, bind, find) for record in open_ones]
    claims = [_with_commitments(claim, submissions) for claim in claims]
    spoken_for = {claim.hotkey.address for claim in claims}
    claims += [
        Claim(f"submission:{s.id}", hotkey, genesis, root, (binding,))
        for s in submissions
        if s.claim.hotkey not in spoken_for
        and (hotkey := _hotkey(s)) is not None
        and (binding := _commitment(s)) is not None
    ]

    def of(claim: Claim) -> KeyHistory:
        return history(subnets[claim.digest]) if claim.digest in subnets else here

    good = [claim for claim in claims if not _rotated(claim, of(claim))]
    rotated = tuple(claim.digest for claim in claims if claim not in good)
    return Standings(rank(good, owner=here.origin), rotated)


def _attested(record: Record, root: str, bind: Bind, find: Find) -> Claim:
    seal = find(record.opens) if record.opens is not None else None
    indices = [record.log_index] + ([seal.log_index] if seal is not None else [])
    bindings = tuple(binding for index in indices if (binding := bind(index)) is not None)
    return Claim(record.digest, Hotkey(Scheme(record.scheme), record.hotkey), record.genesis, root, bindings)


def _with_commitments(claim: Claim, submissions: Sequence[Submission]) -> Claim:
    own = [s for s in submissions if s.claim.hotkey == claim.hotkey.address]
    found = tuple(binding for s in own if (binding := _commitment(s)) is not None)
    return Claim(claim.digest, claim.hotkey, claim.genesis, claim.root, (*claim.bindings, *found))


def _commitment(submission: Submission) -> Binding | None:
    claim = submission.claim
    if claim.block is None or claim.extrinsic is None or claim.revision is None or not submission.active:
        return None
    return Binding(Position(claim.block, claim.extrinsic), By.COMMITMENT, claim.revision)


def _hotkey(submission: Submission) -> Hotkey | None:
    """The account of a commitment; chains do not say its scheme, and sr25519 is what bittensor makes."""
    from attest.errors import InvalidKey

    try:
        return Hotkey(Scheme.SR25519, submission.claim.hotkey or "")
    except InvalidKey:
        return None


def _rotated(claim: Claim, history: KeyHistory) -> bool:
    position = effective(claim)
    if position is None:
        return history.heir(claim.hotkey) != claim.hotkey
    try:
        history.check_valid(claim.hotkey, position)
    except KeyRotated:
        return True
    return False
