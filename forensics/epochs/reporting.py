"""Which results a validator may report: items that are the epoch's, and tracers only of its own.

A leak is shown by tracers, items that one validator alone was given. Whoever could report results on another's tracers,
or invent some, could make that validator the leak; so who was given what is taken from the epoch, not from the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from attest.errors import AttestError
from attest.keys import ss58
from detectors.overfit.results import Row

from ..errors import BadInput

Owners = Mapping[tuple[str, str], str | None]
"""By (environment, item): the only validator that was given it, or None for common items."""


def reportable(rows: Iterable[Row], owners: Owners, *, reporter: str) -> Iterator[Row]:
    """The rows, each when ``reporter`` may report it.

    Args:
        rows: As read.
        owners: All items of the epoch.
        reporter: Who reports, ss58.

    Raises:
        BadInput: A fresh item that the epoch does not have, or a tracer that was not the reporter's.
    """
    for row in rows:
        where = f"body: line {row.line}"
        owner = owners.get((row.environment, row.item))
        named = None if row.validator is None else _account(row.validator, where)
        if (named is not None or owner is not None) and not (owner == reporter and named in (None, owner)):
            raise BadInput(
                "not an item that only the reporter was given",
                where=f"{where}: validator",
                got=f"{row.environment} {row.item[:80]} of {named or owner}",
                expected=f"a tracer of {reporter}, or none",
                remedy="Report results on your own tracers; others report theirs.",
            )
        if not row.exposed and (row.environment, row.item) not in owners:
            raise BadInput(
                "no item of this epoch",
                where=f"{where}: item",
                got=f"{row.environment} {row.item[:80]}",
                expected="the id of an item as it was handed out; older items are exposed",
            )
        yield row


def _account(text: str, where: str) -> str:
    try:
        return ss58.normalise(text)
    except AttestError as error:
        raise BadInput(error.what, where=f"{where}: validator", got=error.got, expected=error.expected) from None
