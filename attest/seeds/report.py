"""What a check of an epoch finds: links in order, and the faults they prove.

A link is *broken* when the file does not hold together, *a fault* when what is signed, or what chain and log say
themselves, proves that the operator broke the rules, *pending* when its time has not come, and *not checked* when an
earlier one leaves nothing to check. It is *unproven* when the file shows a fault by a part that nobody signed (an
anchor, or that something is not there): whoever passed it on could have changed that. Chain and log decide those.
Faults:

| code | the operator |
| --- | --- |
| ``late_commitment`` | anchored C after, or too close to, the round that is mixed |
| ``unanchored`` | never anchored it, and the round is out |
| ``said_twice`` | took one step twice, so told two stories of the same epoch |
| ``out_of_order`` | logged a step before one that must come first |
| ``step_skipped`` | never said one of the steps, in the whole log |
| ``void_after_open`` | called the epoch void when its items were out |
| ``after_void`` | went on with an epoch that was void |
| ``wrong_beacon`` | revealed with a value the beacon never gave |
| ``missing_reveal`` | kept silent after R_open (the timelock opens it all the same) |
| ``early_reveal`` | let the secret out while the epoch was running |
| ``wrong_opening`` | revealed a secret that is not the committed one |
| ``timelock_does_not_open`` | published a ciphertext that opens to nothing |
| ``timelock_other_secret`` | published a ciphertext of another secret |
| ``wrong_seed`` | stated a seed that does not follow |
| ``other_items`` | handed out items of another seed |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .derive import Context


class Outcome(StrEnum):
    """How a link stands."""

    OK = "ok"
    FAULT = "fault"
    BROKEN = "broken"
    PENDING = "pending"
    NOT_CHECKED = "not checked"
    UNPROVEN = "unproven"


@dataclass(frozen=True)
class Link:
    """One link: its name, how it stands, why, and a code when something is wrong."""

    name: str
    outcome: Outcome
    detail: str
    code: str = ""


@dataclass(frozen=True)
class Report:
    """Every link in order, and what follows if they hold.

    Args:
        links: In order.
        context: What the seed is bound to; None when the statement cannot be believed.
        seed: S, once it can be computed.
        roster: The validators that could fetch, in the order of their places.
        void: Why the epoch was declared void; empty when it was not.
    """

    links: tuple[Link, ...]
    context: Context | None = None
    seed: bytes | None = None
    roster: tuple[str, ...] = ()
    void: str = ""

    @property
    def wrong(self) -> Link | None:
        """The first link that is broken or proves a fault."""
        return next((link for link in self.links if link.outcome in (Outcome.BROKEN, Outcome.FAULT)), None)

    @property
    def faults(self) -> tuple[Link, ...]:
        """What is proven against the operator."""
        return tuple(link for link in self.links if link.outcome is Outcome.FAULT)

    @property
    def unproven(self) -> tuple[Link, ...]:
        """What would be a fault, if somebody had not changed the file."""
        return tuple(link for link in self.links if link.outcome is Outcome.UNPROVEN)

    @property
    def complete(self) -> bool:
        """Whether every link was checked and holds."""
        return all(link.outcome is Outcome.OK for link in self.links)


class Pending(Exception):
    """Inside a check: the link's time has not come."""


class NotChecked(Exception):
    """Inside a check: an earlier link left nothing to check."""


class _Coded(Exception):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class Fault(_Coded):
    """Inside a check: the link holds together and proves a fault."""


class Unproven(_Coded):
    """Inside a check: it looks like a fault, by a part of the file that nobody signed."""
