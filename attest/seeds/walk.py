"""What is established of an epoch so far, and what each link of its check may ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from attest.checking import Checked, Expected, check
from attest.errors import AttestError
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Scheme
from attest.keys.ss58 import encode as address
from attest.log.note import Checkpoint, NoteKey
from attest.predicates import EpochStep, Predicate, SeedCommitment, SeedReveal

from .beacon import Network
from .derive import Context
from .epoch_file import EpochFile, Stamp
from .report import Fault, Link, NotChecked, Outcome, Pending

Confirm = Callable[[Stamp], None]
"""Asks a chain whether an anchor and its block's time are as stated; raises an ``AttestError`` when they are not."""
P = TypeVar("P", bound=Predicate)


@dataclass
class Walk:
    """What has been established so far."""

    epoch: EpochFile
    key: NoteKey
    now: int
    network: Network
    confirm: Confirm | None
    expected: Expected
    links: list[Link] = field(default_factory=list)
    context: Context | None = None
    committed: Checked[SeedCommitment] | None = None
    checkpoint: Checkpoint | None = None
    revealed: Checked[SeedReveal] | None = None
    mix: bytes | None = None
    locked: bytes | None = None
    secret: bytes | None = None
    seed: bytes | None = None
    opened: EpochStep | None = None
    roster: tuple[str, ...] = ()
    void: str = ""

    def take(self, name: str, step: Callable[[Walk], str]) -> None:
        """Walk one link and note how it stands."""
        outcome, code = Outcome.OK, ""
        try:
            detail = step(self)
        except (Pending, NotChecked) as why:
            outcome, detail = Outcome.PENDING if isinstance(why, Pending) else Outcome.NOT_CHECKED, str(why)
        except Fault as fault:
            outcome, detail, code = Outcome.FAULT, str(fault), fault.code
        except AttestError as error:
            outcome, detail, code = Outcome.BROKEN, str(error), error.code
        self.links.append(Link(name, outcome, detail, code))

    @property
    def statement(self) -> Checked[SeedCommitment]:
        """The commitment's statement, once it is believed."""
        if self.committed is None:
            raise NotChecked("the statement cannot be believed")
        return self.committed

    @property
    def bound(self) -> Context:
        """The epoch's context, once the statement is believed."""
        if self.context is None:
            raise NotChecked("the statement cannot be believed")
        return self.context

    def spoken(self, leaf: bytes, kind: type[P], where: str) -> Checked[P]:
        """A statement that the service signed, for here."""
        account = Hotkey(Scheme.ED25519, address(self.key.public))
        return check(leaf, kind, expected=self.expected, trusted=[account.verifier()], where=where)

    def stamp_of(self, checkpoint: Checkpoint) -> Stamp | None:
        """The earliest anchor of a checkpoint on the epoch's own chain, confirmed where a chain can be asked."""
        digest, genesis = checkpoint.digest().hex(), "0x" + self.bound.genesis.hex()
        found = [s for s in self.epoch.stamps if s.digest == digest and s.genesis == genesis]
        first = min(found, key=lambda s: (s.block, s.extrinsic), default=None)
        if first is not None and self.confirm is not None:
            self.confirm(first)
        return first

    def reached(self, round_: int) -> bool:
        """Whether a round should be out by the reader's clock."""
        return self.now >= self.network.time_of(round_)
