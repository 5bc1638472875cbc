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
from attest.log.proof import verify_receipt
from attest.predicates import EpochStep, Predicate, SeedCommitment, SeedReveal
from attest.predicates.seeds import Step

from .beacon import Network
from .course import Said, Story
from .derive import Context
from .epoch_file import EpochFile, Stamp
from .errors import SeedError
from .monitor import Watch
from .report import Fault, Link, NotChecked, Outcome, Pending, Unproven

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
    watch: Watch | None = None
    links: list[Link] = field(default_factory=list)
    context: Context | None = None
    committed: Checked[SeedCommitment] | None = None
    checkpoint: Checkpoint | None = None
    leaf: int = 0
    steps: tuple[Said, ...] | None = None
    misread: AttestError | None = None
    revealed: Checked[SeedReveal] | None = None
    mix: bytes | None = None
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
        except (Fault, Unproven) as found:
            outcome = Outcome.FAULT if isinstance(found, Fault) else Outcome.UNPROVEN
            detail, code = str(found), found.code
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

    @property
    def story(self) -> Story | None:
        """What the whole log says of this commitment, where it was read."""
        return None if self.watch is None else self.watch.story(self.statement.digest)

    def signed(self, step: Step) -> Said | None:
        """The service's own word of a step: from the whole log, else from the file."""
        if (story := self.story) is not None:
            return story.first(step)
        return next((said for said in self.steps or () if said.step is step), None)

    def read_steps(self) -> None:
        """Note all steps of the file that can be believed, and the first that cannot, before anything is judged.

        One bad step must not hide what the others prove. A void counts only where the epoch was never opened.
        """
        if self.steps is not None:
            return
        found: list[Said] = []
        for number, text in enumerate(self.epoch.steps):
            try:
                leaf, said = self._step(text, f"step {number}")
            except AttestError as error:
                self.misread = self.misread or error
                continue
            found.append(Said.of(leaf, said))
            if said.step is Step.OPEN and self.opened is None:
                self.opened, self.roster = said, said.roster
        self.steps = tuple(found)
        void = self.signed(Step.VOID)
        if void is not None and self.signed(Step.OPEN) is None:
            self.void = void.reason or "void"

    def _step(self, text: str, where: str) -> tuple[int, EpochStep]:
        proven = verify_receipt(text.encode(), log=self.key)
        said = self.spoken(proven.leaf, EpochStep, where).predicate
        if said.statement != self.statement.digest:
            raise SeedError("a step of another epoch", where=where)
        return proven.index, said

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
