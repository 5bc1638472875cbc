"""A log's storage in memory, with the same promises as a database's: a failed transaction leaves nothing."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy

from attest.log.storage import Evidence, Leaf, StoredCheckpoint


class MemoryLog:
    """Reader, writer and storage in one."""

    def __init__(self):
        self.rows: list[Leaf] = []
        self.full: dict[tuple[int, int], tuple[bytes, bytes]] = {}
        self.notes: list[StoredCheckpoint] = []
        self.proof: list[Evidence] = []

    @contextmanager
    def reading(self):
        yield self

    @contextmanager
    def writing(self):
        kept = {name: copy(value) for name, value in vars(self).items()}
        try:
            yield self
        except BaseException:
            vars(self).update(kept)
            raise

    def size(self):
        return len(self.rows)

    def leaves(self, start, stop):
        return iter(self.rows[start:stop])

    def leaf_hashes(self, start, stop):
        return [leaf.leaf_hash for leaf in self.rows[start:stop]]

    def find(self, leaf_hashes):
        return {leaf.leaf_hash: leaf.index for leaf in self.rows if leaf.leaf_hash in leaf_hashes}

    def tile(self, level, index):
        return self.full.get((level, index), (None,))[0]

    def tile_roots(self, level, start, stop):
        return [self.full[level, index][1] for index in range(start, stop) if (level, index) in self.full]

    def tile_count(self):
        return len(self.full)

    def checkpoints(self):
        return iter(self.notes)

    def latest_checkpoint(self):
        return max(enumerate(self.notes), key=lambda n: (n[1].size, n[0]), default=(0, None))[1]

    def evidence(self):
        return tuple(self.proof)

    def add_leaves(self, leaves):
        self.rows.extend(leaves)

    def add_tiles(self, tiles):
        self.full.update({(level, index): (hashes, root) for level, index, hashes, root in tiles})

    def add_checkpoint(self, checkpoint):
        self.notes.append(checkpoint)

    def add_evidence(self, evidence):
        self.proof.append(evidence)
