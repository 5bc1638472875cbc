"""Who may do what: roles by hotkey, from the settings and, for validators and miners, from the chain.

An address proves nothing by itself; it counts once a signed request was verified. Roles include the ones below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from sqlalchemy import Engine, select

from attest.errors import AttestError
from attest.keys import ss58

from ..errors import UsageError
from ..store.chain import NeuronRow
from ..store.engine import reading
from .problems import Problem

if TYPE_CHECKING:
    from ..settings import Settings


class Role(IntEnum):
    """What a hotkey is here, least first."""

    ANYBODY = 0
    MINER = 1
    VALIDATOR = 2
    REVIEWER = 3
    OPERATOR = 4
    ADMIN = 5


GRANTED: Final = {"admins": Role.ADMIN, "operators": Role.OPERATOR, "reviewers": Role.REVIEWER}
"""Settings that name hotkeys, and the role they have."""


class Roles:
    """Roles of one service.

    Args:
        engine: The database, with what was seen on chain.
        genesis: The chain.
        granted: Roles by hotkey, beyond what the chain gives.
    """

    def __init__(self, engine: Engine, genesis: str, granted: Mapping[str, Role]) -> None:
        self._engine, self._genesis, self._granted = engine, genesis, dict(granted)

    @classmethod
    def of(cls, settings: Settings, engine: Engine, genesis: str) -> Roles:
        """Those that the settings name.

        Raises:
            UsageError: One of them is not an address.
        """
        granted: dict[str, Role] = {}
        for name, role in GRANTED.items():
            for hotkey in _addresses(getattr(settings, name), name):
                granted[hotkey] = max(role, granted.get(hotkey, Role.ANYBODY))
        return cls(engine, genesis, granted)

    def of_hotkey(self, hotkey: str, netuid: int | None = None) -> Role:
        """The highest role of a hotkey (prefix 42), on a subnet or on any."""
        given = self._granted.get(hotkey, Role.ANYBODY)
        return given if given >= Role.REVIEWER else max(given, self._on_chain(hotkey, netuid))

    def demand(self, hotkey: str, least: Role, *, netuid: int | None = None) -> Role:
        """The role of a hotkey, which must be at least this.

        Raises:
            Problem: 403.
        """
        role = self.of_hotkey(hotkey, netuid)
        if role < least:
            raise Problem(
                403, "role_missing", f"this needs the role {least.name.lower()}, and you are {role.name.lower()}"
            )
        return role

    def _on_chain(self, hotkey: str, netuid: int | None) -> Role:
        query = select(NeuronRow.permit).where(
            NeuronRow.genesis == self._genesis, NeuronRow.hotkey == hotkey, NeuronRow.until.is_(None)
        )
        query = query if netuid is None else query.where(NeuronRow.netuid == netuid)
        with reading(self._engine) as session:
            permits = session.scalars(query).all()
        return Role.ANYBODY if not permits else Role.VALIDATOR if any(permits) else Role.MINER


def _addresses(text: str, name: str) -> Iterable[str]:
    for word in text.replace(",", " ").split():
        try:
            yield ss58.normalise(word)
        except AttestError as error:
            raise UsageError("not a hotkey", where=f"setting {name}", got=word[:80], expected=error.what) from None
