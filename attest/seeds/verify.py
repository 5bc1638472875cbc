"""An epoch, link by link, for someone who trusts nobody but the chain, the beacon and a public key.

    statement -> inclusion -> batch -> anchor -> steps -> beacon -> reveal -> opening -> timelock -> seed -> items

Nothing is asked of any network; who can ask one passes in the chain's answers and what the whole log says. What the
outcomes mean, and which faults there are: ``report``; the links: ``links``.
"""

from __future__ import annotations

from attest.checking import Expected
from attest.log.note import NoteKey

from .anchored import ANCHOR_MARGIN
from .beacon import QUICKNET, Network
from .epoch_file import EpochFile
from .links import LINKS
from .monitor import Watch
from .report import Report
from .told import REVEAL_GRACE
from .walk import Confirm, Walk

__all__ = ["ANCHOR_MARGIN", "REVEAL_GRACE", "Confirm", "verify"]


def verify(
    epoch: EpochFile,
    *,
    key: NoteKey,
    now: int,
    network: Network = QUICKNET,
    confirm: Confirm | None = None,
    expected: Expected | None = None,
    watch: Watch | None = None,
) -> Report:
    """Check an epoch's public file.

    Args:
        epoch: The file.
        key: The service's public key with its log's name: signs statements and checkpoints.
        now: POSIX time by the reader's own clock; decides only whether something is late.
        network: The beacon; anything but quicknet is a rehearsal.
        confirm: Asks a chain about an anchor; without it anchors count as the file states them.
        expected: Where the epoch must be from; None accepts any chain and subnet.
        watch: Has seen the whole log; without it what the file leaves out proves nothing.

    Returns:
        The report; nothing is raised for what is wrong with the epoch.
    """
    walk = Walk(epoch, key, now, network, confirm, expected or Expected(None, None), watch)
    for name, step in LINKS:
        walk.take(name, step)
    return Report(tuple(walk.links), walk.context, walk.seed, walk.roster, walk.void)
