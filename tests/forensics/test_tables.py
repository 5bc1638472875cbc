from __future__ import annotations

import contextlib
import os
import tracemalloc
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from forensics import tables
from forensics.errors import BadInput, Unavailable
from forensics.tables import open_table


def read(path, required=("a", "b"), optional=("c",)):
    return [(line.number, line.cells) for line in open_table(path, required=required, optional=optional).lines()]


def write(tmp_path, data):
    path = tmp_path / "table.csv"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_columns_come_in_the_order_asked_for_whatever_the_files(tmp_path):
    path = write(tmp_path, '\ufeffb, x ,a\n1,2,3\n\n4,5," 6 "\n')
    assert read(path) == [(2, ("3", "1", "")), (4, ("6", "4", ""))]
    table = open_table(path, required=("a",), optional=("c",))
    assert (table.unknown, table.absent) == (("b", "x"), ("c",))


def test_parquet_says_the_same_as_csv(tmp_path):
    path = tmp_path / "table.parquet"
    columns = {"a": [1, 2], "b": [True, False], "c": ["x", None]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    assert read(path) == [(2, ("1", "True", "x")), (3, ("2", "False", ""))]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "missing: a, b"),
        ("a\n1\n", "missing: b, got a, expected a,b"),
        ("a,b,a\n1,2,3\n", "comes twice, got a"),
        ("a,b\n1,2\n1,2,3\n", "line 3: wrong number of cells, got 3, expected 2"),
        ("a,b\n1\n", "line 2: wrong number of cells, got 1"),
        ('a,b\n1,"2\n', "not CSV"),
        ("a,b\n1," + "9" * 20_000 + "\n", "line 2: a cell is too long"),
        (b"a,b\n1,\xff\n", "not UTF-8, got byte 0xff"),
        (b"PAR1 and nothing else", "not a Parquet file"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, data, message):
    with pytest.raises(BadInput, match=message):
        read(write(tmp_path, data))


def test_a_file_that_is_not_there_is_unavailable_and_a_folder_no_table(tmp_path):
    with pytest.raises(Unavailable):
        read(tmp_path / "none.csv")
    with pytest.raises(BadInput, match="folder"):
        read(tmp_path)


def test_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "MAX_BYTES", 4)
    with pytest.raises(BadInput, match="too large"):
        read(write(tmp_path, "a,b\n1,2\n"))


PLAIN = {"a": ["1", "2"], "b": ["x", "y"]}


def parquet(tmp_path, columns, **options):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
    return path


def test_bytes_are_text_and_other_columns_are_left_alone(tmp_path):
    path = parquet(tmp_path, {"x": [[1], [2]], "b": [b"x", b"y"], "a": pyarrow.array(["1", "2"]).dictionary_encode()})
    assert read(path) == [(2, ("1", "x", "")), (3, ("2", "y", ""))]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([b"x", b"\xff"], "not UTF-8"),
        ([["x"], ["y"]], "not plain values"),
        ([{"k": 1}, {"k": 2}], "not plain values"),
        (["x", "y" * 50_000], "cell is too long"),
    ],
)
def test_what_a_parquet_column_must_not_be(tmp_path, column, message):
    with pytest.raises(BadInput, match=message):
        read(parquet(tmp_path, PLAIN | {"b": column}))


def test_a_long_text_that_is_repeated_is_never_multiplied(tmp_path):
    """400 kB of file, 80 GB of text."""
    text = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 9_000, pyarrow.int32()), ["x" * 9_000_000])
    path = parquet(tmp_path, {"a": text, "b": text})
    tracemalloc.start()
    with pytest.raises(BadInput, match="too long"):
        read(path)
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


def test_a_damaged_page_is_bad_input(tmp_path):
    path = parquet(tmp_path, {"a": [str(i) for i in range(99)], "b": ["x"] * 99}, compression="none")
    raw = bytearray(path.read_bytes())
    for start in (4, 40, 200, 400):
        path.write_bytes(raw[:start] + bytes([0xFF] * 24) + raw[start + 24 :])
        with contextlib.suppress(BadInput):  # anything else would be a crash, or blamed on the disk
            read(path)
    path.write_bytes(raw[:4] + bytes([0xFF] * 60) + raw[64:])
    with pytest.raises(BadInput, match="damaged"):
        read(path)


def test_devices_and_pipes_are_no_tables(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(BadInput, match="a device or a pipe"):
            read(path)


def test_a_damaged_dictionary_is_refused(tmp_path):
    column = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 7]), pyarrow.array(["a", "b"]), safe=False)
    with pytest.raises(BadInput, match="damaged Parquet"):
        tables._values(column, tmp_path / "t.parquet", "item")
