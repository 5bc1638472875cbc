"""``python -m benchmarks.log``: the transparency log under load, under kill -9 and under tampering.

Three parts, each on SQLite and on a throwaway PostgreSQL that waits for the disk:

* endurance: ``--leaves`` are appended in transactions of ``--batch``, each signed; ``--proofs`` random inclusion and
  consistency proofs are made and verified; the log is opened again, which audits all of it;
* kills: two processes append and one of them is killed, ``--kills`` times; after each the log is opened again, and in
  the end everything that anybody was told must be so;
* tampering: ``--tampered`` rows of every column are changed behind the triggers; each start must refuse.

Prints one table and writes one JSON; exits 1 on the first thing that is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.postgres import cluster, database

from . import writer
from .endurance import SEED, endure
from .kills import kill_and_check
from .tampering import tamper_and_check

Figures = dict[str, dict[str, float]]


@contextmanager
def databases(kind: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Two empty databases of a kind: ``sqlite`` or ``postgresql``."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/endured.db", f"sqlite:///{folder}/killed.db"
        return
    with ExitStack() as stack:
        server = stack.enter_context(cluster(fsync=True))
        urls = [stack.enter_context(database(server)) for _ in range(2)]
        first, second = (url.replace("postgresql://", "postgresql+psycopg://") for url in urls)
        yield first, second


def drill(kind: str, folder: Path, options: argparse.Namespace) -> Figures:
    """All three parts on one kind of database; raises on the first thing that is not as it must be."""
    found: Figures = {}
    with databases(kind, folder) as (endured, killed):
        if options.leaves:
            found["endurance"] = endure(
                endured, leaves=options.leaves, batch=options.batch, proofs=options.proofs, seed=options.seed
            )
        if options.kills:
            said = folder / f"said-{kind}"
            said.mkdir()
            found["kills"] = kill_and_check(killed, said, kills=options.kills, seed=options.seed)
            found["tampering"] = tamper_and_check(
                killed, writer.SIGNER, origin=writer.ORIGIN, rows=options.tampered, seed=options.seed
            )
    return found


def table(figures: dict[str, Figures]) -> str:
    """One row for each figure, one column for each kind of database."""
    kinds = list(figures)
    lines = [f"{'':36}" + "".join(f"{kind:>16}" for kind in kinds)]
    names = dict.fromkeys((part, name) for found in figures.values() for part, rows in found.items() for name in rows)
    for part, name in names:
        values = [figures[kind].get(part, {}).get(name) for kind in kinds]
        cells = ["" if v is None else f"{v:,.0f}" if v == int(v) else f"{v:,.2f}" for v in values]
        lines.append(f"{part + ' ' + name:36}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.log", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--leaves", type=int, default=1_000_000, help="0 leaves the endurance out")
    parser.add_argument("--batch", type=int, default=1000, help="leaves in one transaction")
    parser.add_argument("--proofs", type=int, default=1000, help="random proofs of each kind")
    parser.add_argument("--kills", type=int, default=100, help="0 leaves kills and tampering out")
    parser.add_argument("--tampered", type=int, default=5, help="rows of each column")
    parser.add_argument("--database", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--scratch", type=Path, help="where the databases lie meanwhile")
    parser.add_argument("--out", type=Path, help="JSON file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write; 1 when something was lost, forked or accepted that must not be."""
    options = parse(arguments)
    kinds = ["sqlite", "postgresql"] if options.database == "both" else [options.database]
    figures: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        for kind in kinds:
            try:
                figures[kind] = drill(kind, Path(folder), options)
            except AssertionError as error:
                print(f"{kind}: {error}", file=sys.stderr)
                return 1
    print(table(figures))
    if options.out:
        asked = {key: str(value) if isinstance(value, Path) else value for key, value in vars(options).items()}
        whole = {"machine": platform.platform(), "options": asked, "figures": figures}
        options.out.write_text(json.dumps(whole, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
