"""Tables that people hand in: CSV or Parquet with a header row, read line by line as text.

Every cell becomes text and is parsed by whoever knows its column, so that both formats obey one rule and an error can
name the line. Lines of a Parquet file are its rows, counted from 2 as if it had a header line. Sizes are checked before
anything is read, and a row is never held longer than it takes.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .errors import BadInput, Unavailable

MAX_BYTES: Final = 4 << 30
MAX_CELL: Final = 10_000
"""Characters; names and numbers are far shorter."""
BATCH: Final = 8_192
_PARQUET: Final = b"PAR1"


@dataclass(frozen=True)
class Line:
    """One row.

    Args:
        number: Line of the file; the header is line 1.
        cells: Text of each column that was asked for; empty where an optional column is absent or null.
    """

    number: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table that is about to be read.

    Args:
        path: The file.
        columns: Columns asked for, required ones first.
        absent: Optional columns that the file lacks.
        unknown: Columns of the file that nobody asked for.
    """

    path: Path
    columns: tuple[str, ...]
    absent: tuple[str, ...]
    unknown: tuple[str, ...]
    header: tuple[str, ...]

    def lines(self) -> Iterator[Line]:
        """Rows in order.

        Raises:
            BadInput: A row has another number of cells, a cell is too long, or the file is damaged.
        """
        place = {name: index for index, name in enumerate(self.header)}
        wanted = [place.get(name) for name in self.columns]
        for number, cells in _cells(self.path, len(self.header)):
            yield Line(number, tuple("" if index is None else cells[index] for index in wanted))


def open_table(path: Path, *, required: Sequence[str], optional: Sequence[str] = ()) -> Table:
    """Read the header.

    Args:
        path: CSV (UTF-8, comma) or Parquet, told apart by the first bytes.
        required: Columns that must be there.
        optional: Columns that may be.

    Raises:
        Unavailable: The file cannot be read.
        BadInput: It has no header row with the required columns, a column comes twice, or it is too large.
    """
    header = _header(path)
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise BadInput("a column comes twice", where=f"{path}: line 1", got=twice[0], expected="different names")
    missing = [name for name in required if name not in header]
    if missing:
        raise BadInput(
            "columns are missing: " + ", ".join(missing),
            where=f"{path}: line 1",
            got=",".join(header)[:200] or "no header row",
            expected=",".join(required),
        )
    return Table(
        path=path,
        columns=(*required, *optional),
        absent=tuple(name for name in optional if name not in header),
        unknown=tuple(name for name in header if name not in required and name not in optional),
        header=tuple(header),
    )


def _header(path: Path) -> list[str]:
    with _reading(path):
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise BadInput("file is too large", where=str(path), got=size, expected=f"at most {MAX_BYTES} bytes")
        if _is_parquet(path):
            return [str(name) for name in _parquet(path).schema_arrow.names]
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [name.strip() for name in next(csv.reader(file, strict=True), [])]


def _cells(path: Path, width: int) -> Iterator[tuple[int, list[str]]]:
    with _reading(path):
        for number, cells in _parquet_rows(path) if _is_parquet(path) else _csv_rows(path):
            where = f"{path}: line {number}"
            if len(cells) != width:
                raise BadInput("wrong number of cells", where=where, got=len(cells), expected=width)
            if any(len(cell) > MAX_CELL for cell in cells):
                raise BadInput("a cell is too long", where=where, expected=f"at most {MAX_CELL} characters")
            yield number, cells


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        next(reader, None)
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise BadInput("not CSV", where=f"{path}: line {reader.line_num}", got=str(error)) from None
            if cells:
                yield reader.line_num, [cell.strip() for cell in cells]


def _parquet_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    number = 1
    for batch in _parquet(path).iter_batches(batch_size=BATCH):
        columns = [column.to_pylist() for column in batch.columns]
        for cells in zip(*columns, strict=True):
            number += 1
            yield number, [_text(cell) for cell in cells]


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    return cell.strip() if isinstance(cell, str) else str(cell)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == _PARQUET


def _parquet(path: Path) -> Any:
    # Imported here: it takes a tenth of a second, and most tables are CSV.
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path, memory_map=False)
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput("not a Parquet file", where=str(path), got=str(error).splitlines()[0][:200]) from None


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Errors of the system and of decoding as ours."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise BadInput(
            "not UTF-8", where=str(path), got=f"byte 0x{error.object[error.start]:02x}", expected="UTF-8 CSV or Parquet"
        ) from None
    except csv.Error as error:
        raise BadInput("not CSV", where=f"{path}: line 1", got=str(error)) from None
    except IsADirectoryError:
        raise BadInput("not a file", where=str(path), got="a folder", expected="CSV or Parquet") from None
    except OSError as error:
        raise Unavailable("cannot read the table", where=str(path), got=error.strerror or str(error)) from None
