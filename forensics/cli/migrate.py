"""``forensics migrate``: the database to the schema of this program."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import Exit
from .console import emit
from .home import Home


def migrate(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Bring the database to the newest schema.

    Harmless when it is there already.
    """
    from ..store.migrate import upgrade

    before, after = upgrade(Home(context.obj).unprepared)
    if json:
        emit({"before": before, "after": after})
    else:
        print(f"schema {after}" + (" (already)" if before == after else f" (was {before or 'empty'})"))
    return Exit.CLEAN
