"""Tiles of 256 hashes (C2SP tlog-tiles): the tree as immutable pieces that caches can hold and proofs can be made from.

Tile ``n`` of level ``l`` holds the hashes of the perfect subtrees ``(256 n + i) 256^l`` to ``(256 n + i + 1) 256^l``.
Only the tiles at the right edge are partial; a full one never changes, so only full ones are stored. The hashes of a
partial one are found from what lies beneath: leaf hashes, or roots of full tiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .errors import ProofInvalid
from .merkle import EMPTY_ROOT, HASH_SIZE, hash_node, root_of

HEIGHT = 8
WIDTH = 1 << HEIGHT
MAX_LEVEL = 7  # 256^8 leaves are more than MAX_SIZE; the format's bound of 63 is never reached
ENTRIES = -1  # "level" of the bundles that hold the entries themselves
MAX_LEAF = 2**16 - 1  # bytes of one entry: a bundle gives its length in 16 bits; what is longer is logged by its digest
_TILE = re.compile(r"tile/(entries|0|[1-9][0-9]?)/((?:x[0-9]{3}/)*[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?")


@dataclass(frozen=True, order=True)
class Tile:
    """A tile's place: level (``ENTRIES`` for entry bundles), index, and width (256 when full)."""

    level: int
    index: int
    width: int = WIDTH

    @property
    def path(self) -> str:
        """Where the tile is served, under the log's prefix."""
        level = "entries" if self.level < 0 else str(self.level)
        partial = "" if self.width == WIDTH else f".p/{self.width}"
        return f"tile/{level}/{_number(self.index)}{partial}"

    @property
    def first(self) -> int:
        """Number, within its level, of the first hash in the tile."""
        return self.index * WIDTH

    @classmethod
    def parse(cls, path: str) -> Tile:
        """Read a path.

        Raises:
            ProofInvalid: It is no path of a tile, or not in the one form that is allowed.
        """
        found = _TILE.fullmatch(path)
        if not found or len(path) > 64:
            raise ProofInvalid("not a tile path", got=path, expected="tile/LEVEL/NNN[.p/WIDTH]")
        level, number, width = found.groups()
        tile = cls(
            ENTRIES if level == "entries" else int(level),
            int(number.replace("x", "").replace("/", "")),
            int(width) if width else WIDTH,
        )
        if tile.path != path or tile.level > 63 or (width and tile.width >= WIDTH):
            raise ProofInvalid("tile path is not canonical", got=path, expected=tile.path)
        return tile


StoredTile = tuple[int, int, bytes, bytes]
"""A full tile: level, index, 8192 bytes of hashes, 32 bytes of root."""


class TileSource(Protocol):
    """Where full tiles and leaf hashes are stored."""

    def leaf_hashes(self, start: int, stop: int) -> Sequence[bytes]:
        """Hashes of the leaves ``start`` to ``stop``, in order."""

    def tile(self, level: int, index: int) -> bytes | None:
        """The 8192 bytes of a full tile above level 0 or at it, or None."""

    def tile_roots(self, level: int, start: int, stop: int) -> Sequence[bytes]:
        """Roots of the full tiles ``start`` to ``stop`` of a level, in order."""


def tiles_of(size: int) -> Iterator[Tile]:
    """Every tile of a tree of ``size`` leaves, lowest level first."""
    level = 0
    while hashes := size >> (HEIGHT * level):
        for index in range(hashes >> HEIGHT):
            yield Tile(level, index)
        if rest := hashes % WIDTH:
            yield Tile(level, hashes >> HEIGHT, rest)
        level += 1


def holds(size: int, tile: Tile) -> bool:
    """Whether a tree of ``size`` leaves has this tile at this width (full ones also count as their own parts)."""
    hashes = size >> (HEIGHT * max(tile.level, 0)) if tile.level <= MAX_LEVEL else 0
    return tile.first + tile.width <= hashes


def read_tile(source: TileSource, tile: Tile) -> bytes:
    """The bytes of a tile of hashes, full or partial.

    Raises:
        ProofInvalid: The stored tree does not reach so far.
    """
    if tile.width == WIDTH and (stored := source.tile(tile.level, tile.index)) is not None:
        return stored
    return b"".join(_hashes(source, tile.level, tile.first, tile.first + tile.width))


def entry_bundle(bodies: Sequence[bytes]) -> bytes:
    """The entries of a tile, each after its length as a big-endian 16-bit number.

    Raises:
        ProofInvalid: An entry is longer than that can say.
    """
    if longest := max((len(body) for body in bodies if len(body) > MAX_LEAF), default=0):
        raise ProofInvalid("entry is too long for a bundle", got=longest, expected=f"at most {MAX_LEAF} bytes")
    return b"".join(len(body).to_bytes(2, "big") + body for body in bodies)


def tile_root(hashes: Sequence[bytes]) -> bytes:
    """The root of a full tile: of the perfect subtree of height 8 over its hashes."""
    row = list(hashes)
    if len(row) != WIDTH:
        raise ProofInvalid("a tile that is not full has no root of its own", got=len(row), expected=WIDTH)
    while len(row) > 1:
        row = [hash_node(row[i], row[i + 1]) for i in range(0, len(row), 2)]
    return row[0]


def split_hashes(raw: bytes) -> list[bytes]:
    """The hashes of a tile.

    Raises:
        ProofInvalid: Not a whole number of hashes, or none, or too many.
    """
    if not raw or len(raw) % HASH_SIZE or len(raw) > WIDTH * HASH_SIZE:
        raise ProofInvalid("not a tile", got=f"{len(raw)} bytes", expected=f"1 to {WIDTH} times {HASH_SIZE} bytes")
    return [raw[i : i + HASH_SIZE] for i in range(0, len(raw), HASH_SIZE)]


class Edge:
    """The right edge of a growing tree as partial tiles: appending to it yields the tiles that become full.

    A partial tile's hashes are kept for each level, so that the root costs at most 256 hashes a level.
    """

    def __init__(self, size: int = 0, rows: Sequence[Sequence[bytes]] = ()) -> None:
        self.size = size
        self._rows = [list(row) for row in rows]

    def append(self, leaf_hash: bytes) -> list[StoredTile]:
        """Add a leaf by its hash; the tiles this fills, lowest first."""
        full: list[StoredTile] = []
        node, level, number = leaf_hash, 0, self.size
        self.size += 1
        while True:
            if level == len(self._rows):
                self._rows.append([])
            row = self._rows[level]
            row.append(node)
            if len(row) < WIDTH:
                return full
            node, number = tile_root(row), number >> HEIGHT
            full.append((level, number, b"".join(row), node))
            row.clear()
            level += 1

    def root(self) -> bytes:
        """The root of the tree so far, 32 bytes."""
        below: list[bytes] = []
        for row in self._rows:
            if hashes := [*row, *below]:
                below = [root_of(hashes)]
        return below[0] if below else EMPTY_ROOT

    def copy(self) -> Edge:
        """An independent edge in the same state."""
        return Edge(self.size, self._rows)


class TileNodes:
    """Perfect subtrees from stored tiles: the ``Nodes`` that proofs are made from. Remembers what it has read."""

    def __init__(self, source: TileSource) -> None:
        self._source = source
        self._rows: dict[tuple[int, int], list[bytes]] = {}

    def __call__(self, level: int, index: int) -> bytes:
        """Hash of the perfect subtree over leaves ``index << level`` to ``(index + 1) << level``."""
        tile_level, height = divmod(level, HEIGHT)
        first = index << height
        row = self._row(tile_level, first >> HEIGHT, first % WIDTH + (1 << height))
        nodes = row[first % WIDTH : first % WIDTH + (1 << height)]
        while len(nodes) > 1:
            nodes = [hash_node(nodes[i], nodes[i + 1]) for i in range(0, len(nodes), 2)]
        return nodes[0]

    def _row(self, level: int, index: int, needed: int) -> list[bytes]:
        row = self._rows.get((level, index), [])
        if len(row) < needed:
            stored = self._source.tile(level, index)
            if stored is not None:
                row = split_hashes(stored)
            else:
                row = list(_hashes(self._source, level, index * WIDTH, index * WIDTH + needed))
            self._rows[level, index] = row
        return row


def _hashes(source: TileSource, level: int, start: int, stop: int) -> Sequence[bytes]:
    found = source.leaf_hashes(start, stop) if level == 0 else source.tile_roots(level - 1, start, stop)
    if len(found) != stop - start:
        raise ProofInvalid("tree does not reach so far", got=start + len(found), expected=f"{stop} at level {level}")
    return found


def _number(index: int) -> str:
    groups = [f"{index % 1000:03d}"]
    while index := index // 1000:
        groups.insert(0, f"x{index % 1000:03d}")
    return "/".join(groups)
