"""Transfers of a range of blocks, as the table that the sybil detector takes."""

from __future__ import annotations

import pytest

from attest.keys import ss58
from forensics.chain.fake import FakeSubstrate
from forensics.chain.fake_subnet import FakeSubnet
from forensics.chain.node import NodeReader
from forensics.chain.transfers import Paid, collect, read, write
from forensics.errors import BadInput, ChainPruned, Unavailable, UsageError

from .subnets import NETUID, who

ANN, BEN, CAT = who("ann"), who("ben"), who("cat")


@pytest.fixture
def substrate() -> FakeSubstrate:
    substrate = FakeSubstrate()
    fake = FakeSubnet(substrate, NETUID)
    for payments in (
        [(ANN, BEN, 5), (ANN, BEN, 7), (BEN, CAT, 1)],
        [],
        [(ss58.encode(ss58.account_id(CAT), prefix=0), ANN, 1 << 62)],
    ):
        substrate.produce()
        for payment in payments:
            fake.transfer(*payment)
    substrate.produce(substrate.lag)
    return substrate


@pytest.fixture
def reader(connect, substrate) -> NodeReader:
    return NodeReader(connect(to=substrate))


FIRST = sorted([Paid(ANN, BEN, 2, 12, 101), Paid(BEN, CAT, 1, 1, 101)], key=lambda p: (p.source, p.target))
ROWS = [*FIRST, Paid(CAT, ANN, 1, 1 << 62, 103)]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_transfers_come_back_from_the_table(reader, tmp_path, name):
    seen = []
    path = tmp_path / name
    assert write(path, collect(reader, 101, 103, lambda done, total: seen.append((done, total)))) == 3
    assert list(read(path)) == ROWS
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert [p.name for p in tmp_path.glob("*t.*")] == [name]


def test_a_table_without_amounts_or_blocks_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"from,to,count\n{ANN},{BEN},3\n")
    assert list(read(path)) == [Paid(ANN, BEN, 3)]


@pytest.mark.parametrize("line", [f"{ANN},{BEN},x", f"nobody,{BEN},1", f"{ANN},{BEN},-1", f"{ANN},{BEN},{'9' * 30}"])
def test_a_wrong_line_is_named(tmp_path, line):
    path = tmp_path / "t.csv"
    path.write_text(f"from,to,count\n{ANN},{BEN},3\n{line}\n")
    with pytest.raises(BadInput, match="line 3"):
        list(read(path))


def test_a_range_must_be_one_and_final(reader, substrate):
    for first, last in ((5, 4), (-1, 4), (0, 2_000_000)):
        with pytest.raises(UsageError, match="range"):
            list(collect(reader, first, last))
    with pytest.raises(UsageError, match="final"):
        list(collect(reader, 101, substrate.height))


def test_a_node_that_forgot_leaves_no_half_table(reader, substrate, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("what was there")
    substrate.prune(103)
    with pytest.raises(ChainPruned, match="archive"):
        write(path, collect(reader, 101, 103))
    assert [(p.name, p.read_text()) for p in tmp_path.glob("*t.csv*")] == [("t.csv", "what was there")]


def test_a_place_that_cannot_be_written_is_unavailable(reader, tmp_path):
    with pytest.raises(Unavailable, match="cannot write"):
        write(tmp_path / "nowhere" / "t.csv", collect(reader, 101, 103))
