"""Who gets which items when: validators of the roster while an epoch is open, everyone after the reveal.

What a validator gets is a list of keys without numbers, common items and its own tracers mixed (``attest.seeds.plan``);
never S. The hand-over is on record, durably, before the answer is made. Whether the caller *is* that hotkey is for the
door to check (btauth/1); here it is a fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from attest.keys import ss58
from attest.predicates.seeds import Step
from attest.seeds import beacon, seal
from attest.seeds.derive import check_opening, final_seed
from attest.seeds.plan import Item, Plan, every, handed_to, traced_to
from attest.seeds.seal import SealKey

from ..store.engine import writing
from . import fetches
from .errors import EpochHidden, NotInRoster
from .interfaces import Clock
from .machine import State
from .records import Epoch
from .reporting import Owners
from .shelf import Shelf, claimed
from .statements import REVEAL


@dataclass(frozen=True)
class Handout:
    """What a validator receives.

    Args:
        epoch: Number of the epoch.
        hotkey: The validator, ss58.
        items: In the validator's own order; their ``index`` is not given out.
    """

    epoch: int
    hotkey: str
    items: tuple[Item, ...]

    def document(self) -> dict[str, object]:
        """The answer as JSON: environment, id and key of each item, nothing that tells a tracer from another."""
        items = [{"environment": i.environment, "id": i.id, "key": i.key.hex()} for i in self.items]
        return {"schema": "integrity/handout/v1", "epoch": self.epoch, "hotkey": self.hotkey, "items": items}


@dataclass(frozen=True)
class Revealed:
    """What everyone may know of a revealed epoch."""

    epoch: int
    seed: bytes
    roster: tuple[str, ...]
    items: tuple[Item, ...]
    plan: Plan

    def document(self) -> dict[str, object]:
        """The answer as JSON; ``validator`` is the only one that had an item, null for common ones."""
        return {
            "schema": "integrity/seeds/v1",
            "epoch": self.epoch,
            "seed": self.seed.hex(),
            "roster": list(self.roster),
            "items": [self._item(item) for item in self.items],
        }

    def _item(self, item: Item) -> dict[str, object]:
        place = traced_to(self.plan, item.environment, item.index)
        return {
            "environment": item.environment,
            "index": item.index,
            "id": item.id,
            "key": item.key.hex(),
            "validator": None if place is None else self.roster[place],
        }


class Access:
    """The door's inner side.

    Args:
        shelf: Epochs.
        seal_key: Opens the secrets at rest.
        clock: For the record of who fetched when.
    """

    def __init__(self, shelf: Shelf, seal_key: SealKey, clock: Clock) -> None:
        self._shelf, self._seal_key, self._clock = shelf, seal_key, clock

    def fetch(self, number: int, hotkey: str) -> Handout:
        """Hand an open epoch's items to a validator; each time is put on record first.

        Raises:
            EpochUnknown: No such epoch.
            EpochHidden: It is not open, or its opening is not in the log yet.
            NotInRoster: The hotkey is no validator of this epoch.
        """
        account = ss58.normalise(hotkey)
        epoch = self._shelf.epoch(number)
        self._check_open(epoch)
        if account not in epoch.roster:
            raise NotInRoster("no validator of this epoch", where=f"epoch {number}", got=account)
        items = tuple(handed_to(self._seed(epoch), epoch.plan, epoch.roster, account))
        ids = sha256("".join(item.id for item in items).encode()).hexdigest()
        with writing(self._shelf.engine) as session:
            if claimed(session, epoch) is None:
                raise EpochHidden("the epoch has just been closed", where=f"epoch {number}")
            fetches.add(session, epoch.id, fetches.Fetch(account, self._clock(), len(items), "sha256:" + ids))
        return Handout(number, account, items)

    def revealed(self, number: int) -> Revealed:
        """All of a revealed epoch, for everyone.

        Raises:
            EpochUnknown: No such epoch.
            EpochHidden: It is not revealed.
        """
        epoch = self._shelf.epoch(number)
        said = self._shelf.statements(epoch).get(REVEAL)
        if epoch.state is not State.REVEALED or said is None or said.leaf is None:
            raise EpochHidden("not revealed yet", where=f"epoch {number}", got=epoch.state, expected="revealed")
        seed = self._seed(epoch)
        return Revealed(number, seed, epoch.roster, tuple(every(seed, epoch.plan, len(epoch.roster))), epoch.plan)

    def owners(self, number: int) -> Owners:
        """Every item of an epoch that was opened, with the only validator that was given it."""
        epoch = self._shelf.epoch(number)
        return {
            (item.environment, item.id): None if place is None else epoch.roster[place]
            for item in every(self._seed(epoch), epoch.plan, len(epoch.roster))
            for place in [traced_to(epoch.plan, item.environment, item.index)]
        }

    def _check_open(self, epoch: Epoch) -> None:
        said = self._shelf.statements(epoch).get(str(Step.OPEN))
        if epoch.state is not State.OPEN or said is None or said.leaf is None:
            raise EpochHidden(
                "the epoch is not open to validators", where=f"epoch {epoch.number}", got=epoch.state, expected="open"
            )

    def _seed(self, epoch: Epoch) -> bytes:
        secret = seal.unseal(epoch.sealed, epoch.context, key=self._seal_key())
        check_opening(epoch.context, secret, epoch.commitment)
        assert epoch.mix_signature is not None  # noqa: S101 - an epoch opens on it
        return final_seed(epoch.context, secret, beacon.value(epoch.mix_signature))
