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
        with _reading(self.path):
            parquet = _is_parquet(self.path)
        # Of a Parquet file only the columns that are asked for are read: whatever else it holds is not ours to judge.
        header = [name for name in self.columns if name not in self.absent] if parquet else self.header
        place = {name: index for index, name in enumerate(header)}
        wanted = [place.get(name) for name in self.columns]
        rows = _parquet_rows(self.path, header) if parquet else _csv_rows(self.path)
        for number, cells in _cells(self.path, rows, len(header)):
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
        if not path.is_file() and not path.is_dir():
            raise BadInput("not a file", where=str(path), got="a device or a pipe", expected="CSV or Parquet")
        if _is_parquet(path):
            return [str(name) for name in _parquet(path).schema_arrow.names]
        with path.open(encoding="utf-8-sig", newline="") as file:
            return [name.strip() for name in next(csv.reader(file, strict=True), [])]


def _cells(path: Path, rows: Iterator[tuple[int, list[str]]], width: int) -> Iterator[tuple[int, list[str]]]:
    with _reading(path):
        for number, cells in rows:
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


def _parquet_rows(path: Path, header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    import pyarrow

    number = 1
    try:
        # Dictionaries stay dictionaries, so that a long value that is repeated is seen before it is multiplied.
        _check_plain(_parquet(path), path, header)
        file = _parquet(path, header)
        for batch in file.iter_batches(batch_size=BATCH, columns=list(header)):
            columns = [_values(batch.column(batch.schema.get_field_index(name)), path, name) for name in header]
            for cells in zip(*columns, strict=True):
                number += 1
                yield number, list(cells)
    except (pyarrow.ArrowException, OSError) as error:
        raise BadInput("the Parquet file is damaged", where=str(path), got=str(error).splitlines()[0][:200]) from None


def _check_plain(file: Any, path: Path, header: Sequence[str]) -> None:
    """Refuse columns of lists and structures, and more data than is read at once, before any of it is unpacked."""
    import pyarrow

    for name in header:
        kind = file.schema_arrow.field(name).type
        if pyarrow.types.is_nested(kind):
            raise BadInput("not plain values", where=f"{path}: {name}", got=kind, expected="text or numbers")
    groups = (file.metadata.row_group(index) for index in range(file.metadata.num_row_groups))
    size = sum(g.column(c).total_uncompressed_size for g in groups for c in range(g.num_columns))
    if size > MAX_BYTES:
        raise BadInput("file is too large", where=str(path), got=size, expected=f"at most {MAX_BYTES} bytes unpacked")


def _values(column: Any, path: Path, name: str) -> list[str]:
    import pyarrow

    where = f"{path}: {name}"
    if isinstance(column, pyarrow.DictionaryArray):
        known = [_text(value, where) for value in _short(column.dictionary, where).to_pylist()]
        indices = column.indices.to_pylist()
        if any(index is not None and not 0 <= index < len(known) for index in indices):
            raise BadInput("damaged Parquet", where=where, got="an index beyond its dictionary", expected="whole pages")
        return ["" if index is None else known[index] for index in indices]
    return [_text(value, where) for value in _short(column, where).to_pylist()]


def _short(column: Any, where: str) -> Any:
    """The column, if no text in it is too long to be copied."""
    import pyarrow.compute
    from pyarrow import types

    kind = column.type
    if any(is_(kind) for is_ in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)):
        longest = pyarrow.compute.max(pyarrow.compute.binary_length(column)).as_py() or 0
        if longest > 4 * MAX_CELL:
            raise BadInput("a cell is too long", where=where, got=longest, expected=f"at most {MAX_CELL} characters")
    return column


def _text(cell: Any, where: str) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bytes):
        try:
            cell = cell.decode()
        except UnicodeDecodeError:
            raise BadInput("not UTF-8", where=where, got=cell[:20], expected="text or numbers") from None
    return cell.strip() if isinstance(cell, str) else str(cell)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == _PARQUET


def _parquet(path: Path, columns: Sequence[str] = ()) -> Any:
    # Imported here: it takes a tenth of a second, and most tables are CSV.
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path, memory_map=False, read_dictionary=list(columns) or None)
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
