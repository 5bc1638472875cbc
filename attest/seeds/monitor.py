"""A whole log read for two stories about one epoch: what no single public file can show.

An operator who commits to one epoch twice can show each reader the commitment that suits, though both are in the log.
Whoever reads all leaves finds them. Only statements with the service's own signature count, so nobody else can put a
contradiction there.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from attest.checking import Expected, check
from attest.errors import AttestError
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Scheme
from attest.keys.ss58 import encode as address
from attest.log.note import NoteKey
from attest.predicates import EpochStep, Predicate, SeedCommitment, SeedReveal

from .course import Said, Story

Epoch = tuple[str, int, str, int]
"""Genesis hash, subnet, competition, number."""


@dataclass(frozen=True)
class Contradiction:
    """Two leaves that cannot both be honest.

    Args:
        epoch: Which epoch they speak of.
        code: ``two_commitments``, ``said_twice`` or ``two_reveals``.
        first: Number of the earlier leaf.
        second: Number of the later one.
    """

    epoch: Epoch
    code: str
    first: int
    second: int


class Watch:
    """Shown every leaf of a log in order.

    Args:
        key: The service's public key with its log's name.
    """

    def __init__(self, key: NoteKey) -> None:
        self._signer = Hotkey(Scheme.ED25519, address(key.public)).verifier()
        self._seen: dict[Hashable, int] = {}
        self.commitments: dict[Epoch, int] = {}
        self.found: list[Contradiction] = []
        self._steps: dict[str, list[Said]] = {}
        self._reveals: dict[str, int] = {}
        self.size = 0

    def take(self, number: int, body: bytes) -> None:
        """Look at one leaf; what is no statement of the service about an epoch is passed over."""
        self.size = number + 1
        try:
            found = check(body, Predicate, expected=Expected(None, None), trusted=[self._signer])
        except AttestError:
            return
        predicate = found.predicate
        if isinstance(predicate, SeedCommitment):
            self._note(number, predicate, "two_commitments", "commitment")
            self.commitments.setdefault(_epoch(predicate), number)
        elif isinstance(predicate, SeedReveal):
            self._note(number, predicate, "two_reveals", "reveal")
            self._reveals.setdefault(predicate.statement, number)
        elif isinstance(predicate, EpochStep):
            self._note(number, predicate, "said_twice", str(predicate.step))
            self._steps.setdefault(predicate.statement, []).append(Said.of(number, predicate))

    def story(self, statement: str) -> Story:
        """Everything that was said of one commitment, by the digest of its statement."""
        return Story(tuple(self._steps.get(statement, ())), self._reveals.get(statement), self.size)

    def _note(self, number: int, said: SeedCommitment | SeedReveal | EpochStep, code: str, what: str) -> None:
        first = self._seen.setdefault((_epoch(said), what), number)
        if first != number:
            self.found.append(Contradiction(_epoch(said), code, first, number))


def _epoch(said: SeedCommitment | SeedReveal | EpochStep) -> Epoch:
    place = said.context
    return place.genesis, place.netuid, place.competition, said.epoch
