"""Who paid whom, as a table: ``from,to,count,amount,block``, a line for each pair of accounts in each block.

Amounts are in rao. The same table, from wherever, is read back by ``read``.
"""

from __future__ import annotations

import csv
import io
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from attest.errors import AttestError
from attest.keys import ss58

from ..errors import BadInput, Unavailable, UsageError
from ..tables import open_table
from .observed import Transfer, TransferReader

COLUMNS: Final = ("from", "to", "count", "amount", "block")
MAX_RANGE: Final = 1_000_000
"""Blocks of one call: four months, a day of asking."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Paid:
    """Transfers from one account to another in one block, or over all blocks where the table does not say."""

    source: str
    target: str
    count: int
    amount: int | None = None
    block: int | None = None


def collect(reader: TransferReader, first: int, last: int, progress: Progress | None = None) -> Iterator[Paid]:
    """Read transfers of final blocks ``first`` to ``last``.

    Raises:
        UsageError: The range is empty, too long, or not final yet.
        ChainPruned: The node has forgotten a block: name an archive node.
        ChainUnavailable: The chain could not be asked.
    """
    if not 0 <= first <= last or last - first >= MAX_RANGE:
        raise UsageError(
            "no such range of blocks", where="--from-block", got=f"{first}..{last}", expected=f"at most {MAX_RANGE}"
        )
    if last > (final := reader.finalized()):
        raise UsageError("not final yet", where="--to-block", got=last, expected=f"at most {final}")
    for block in range(first, last + 1):
        yield from together(reader.transfers(block))
        if progress is not None:
            progress(block - first + 1, last - first + 1)


def together(transfers: Iterable[Transfer]) -> list[Paid]:
    """Transfers of one block, a line for each pair of accounts, by address."""
    sums: dict[tuple[str, str, int], tuple[int, int]] = {}
    for one in transfers:
        count, amount = sums.get((one.source, one.target, one.block), (0, 0))
        sums[one.source, one.target, one.block] = count + 1, amount + one.amount
    return [Paid(source, target, *sums[source, target, block], block) for source, target, block in sorted(sums)]


def write(path: Path, rows: Iterable[Paid]) -> int:
    """Write a table, Parquet where the name ends so, else CSV; whole or not at all. The number of rows.

    Raises:
        Unavailable: It cannot be written; what was there is still there.
    """
    temporary = path.with_name(f".{path.name[:100]}-{secrets.token_hex(6)}")
    try:
        count = _parquet(temporary, rows) if path.suffix.lower() == ".parquet" else _csv(temporary, rows)
        os.replace(temporary, path)
    except OSError as error:
        raise Unavailable("cannot write the table", where=str(path), got=error.strerror or str(error)) from None
    finally:
        temporary.unlink(missing_ok=True)
    return count


def read(path: Path) -> Iterator[Paid]:
    """Read a table of transfers; ``amount`` and ``block`` may be absent.

    Raises:
        Unavailable: The file cannot be read.
        BadInput: It is no such table; names the line.
    """
    for line in open_table(path, required=COLUMNS[:3], optional=COLUMNS[3:]).lines():
        where = f"{path}: line {line.number}"
        source, target, count, amount, block = line.cells
        try:
            yield Paid(
                ss58.normalise(source),
                ss58.normalise(target),
                _number(count, "count", where),
                _number(amount, "amount", where) if amount else None,
                _number(block, "block", where) if block else None,
            )
        except AttestError as error:
            raise BadInput("not an address", where=where, got=error.got) from None


def _number(text: str, column: str, where: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 20:
        raise BadInput("not a whole number", where=f"{where}, column {column}", got=text[:40])
    return int(text)


def _csv(path: Path, rows: Iterable[Paid]) -> int:
    with path.open("x", newline="", encoding="utf-8") as file:
        count = _lines(file, rows)
        file.flush()
        os.fsync(file.fileno())
    return count


def _lines(file: TextIO, rows: Iterable[Paid]) -> int:
    table, count = csv.writer(file, lineterminator="\n"), 0
    table.writerow(COLUMNS)
    for row in rows:
        table.writerow((row.source, row.target, row.count, row.amount, row.block))
        count += 1
    return count


def _parquet(path: Path, rows: Iterable[Paid]) -> int:
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    text = io.StringIO()
    count = _lines(text, rows)
    types = {"from": pyarrow.string(), "to": pyarrow.string()} | dict.fromkeys(COLUMNS[2:], pyarrow.int64())
    options = pyarrow.csv.ConvertOptions(column_types=types)
    read_back = pyarrow.csv.read_csv(io.BytesIO(text.getvalue().encode()), convert_options=options)
    pyarrow.parquet.write_table(read_back, path)
    return count
