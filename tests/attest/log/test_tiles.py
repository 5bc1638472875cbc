from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.log.errors import ProofInvalid
from attest.log.merkle import hash_leaf, prove_inclusion, root_of, tree_root, verify_inclusion
from attest.log.storage import Leaf
from attest.log.tiles import (
    ENTRIES,
    Edge,
    Tile,
    TileNodes,
    entry_bundle,
    holds,
    read_tile,
    split_hashes,
    tiles_of,
)

from .memory import MemoryLog

LEAVES = [hash_leaf(index.to_bytes(4, "big")) for index in range(256 * 257 + 3)]
STORED, EDGE = MemoryLog(), Edge()
for number, value in enumerate(LEAVES):
    STORED.add_leaves([Leaf(number, b"", value)])
    STORED.add_tiles(EDGE.append(value))


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 0), "tile/0/000"),
        (Tile(0, 1234067), "tile/0/x001/x234/067"),
        (Tile(1, 17, 3), "tile/1/017.p/3"),
        (Tile(ENTRIES, 999999, 255), "tile/entries/x999/999.p/255"),
        (Tile(63, 1000), "tile/63/x001/000"),
    ],
)
def test_paths_are_those_of_the_specification(tile, path):
    assert tile.path == path
    assert Tile.parse(path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tile/0",
        "tile/00/000",
        "tile/64/000",
        "tile/0/0",
        "tile/0/x000/001",
        "tile/0/001/002",
        "tile/0/000.p/0",
        "tile/0/000.p/256",
        "tile/0/000.p/01",
        "tile/-1/000",
        "tile/0/000\n",
        "tile/0/٠٠٠",
        "tile/0/" + "x001/" * 40 + "000",
        "tile/0/../000",
    ],
)
def test_other_paths_are_refused(path):
    with pytest.raises(ProofInvalid):
        Tile.parse(path)


def test_the_example_of_the_specification():
    tiles = list(tiles_of(70_000))
    full = [t for t in tiles if t.width == 256]
    assert [t for t in tiles if t.width < 256] == [Tile(0, 273, 112), Tile(1, 1, 17), Tile(2, 0, 1)]
    assert (len([t for t in full if t.level == 0]), len([t for t in full if t.level == 1])) == (273, 1)
    assert list(tiles_of(256)) == [Tile(0, 0), Tile(1, 0, 1)]
    assert all(holds(70_000, tile) for tile in tiles)
    assert not any(holds(70_000, t) for t in (Tile(0, 273), Tile(1, 1, 18), Tile(3, 0, 1), Tile(60, 0)))


@given(st.integers(0, len(LEAVES)), st.data())
@settings(max_examples=30, deadline=None)
def test_proofs_from_tiles_are_those_of_the_tree(size, data):
    nodes = TileNodes(STORED)
    root = tree_root(size, nodes)
    if size < 600:
        assert root == root_of(LEAVES[:size])
    if size:
        index = data.draw(st.integers(0, size - 1))
        verify_inclusion(LEAVES[index], index, size, prove_inclusion(index, size, nodes), root)


def test_the_edge_knows_the_root_at_every_size():
    edge = Edge()
    for size, leaf in enumerate(LEAVES[:600], 1):
        edge.append(leaf)
        if size % 37 == 0 or size in (1, 255, 256, 257, 512):
            assert edge.root() == root_of(LEAVES[:size])
    assert EDGE.root() == root_of(LEAVES)
    other = edge.copy()
    other.append(LEAVES[0])
    assert edge.size == 600
    assert edge.root() == root_of(LEAVES[:600])


def test_tiles_of_every_kind_can_be_read_and_checked():
    for tile in tiles_of(len(LEAVES)):
        hashes = split_hashes(read_tile(STORED, tile))
        assert len(hashes) == tile.width
        if tile.level == 0:
            assert hashes == LEAVES[tile.first : tile.first + tile.width]
    upper = split_hashes(read_tile(STORED, Tile(1, 0)))
    assert upper[7] == root_of(LEAVES[7 * 256 : 8 * 256])


def test_what_is_not_there_is_refused():
    for tile in (Tile(0, 257, 4), Tile(2, 0, 2), Tile(1, 5)):
        with pytest.raises(ProofInvalid, match="does not reach"):
            read_tile(STORED, tile)
    for raw in (b"", b"x" * 31, b"x" * 32 * 257):
        with pytest.raises(ProofInvalid):
            split_hashes(raw)


def test_an_entry_bundle_gives_each_length():
    assert entry_bundle([b"ab", b"", b"c" * 300]) == b"\x00\x02ab\x00\x00\x01\x2c" + b"c" * 300
    with pytest.raises(ProofInvalid, match="too long"):
        entry_bundle([bytes(65_536)])
