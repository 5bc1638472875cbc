from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forensics.known.claim import Claim, Role
from forensics.known.index import COMMON, Index
from forensics.known.keys import Kind, _series, keys
from forensics.known.registry import Registry
from forensics.known.vectors import Vectors, spaces
from forensics.store.blobs import Blobs
from forensics.store.engine import connect, reading
from forensics.store.migrate import ensure
from tests.forensics import models

BASE = Claim(Role.BASE)


def test_keys_are_stable_between_versions(ada):
    """Stored indexes must stay readable: a change here needs a migration."""
    assert _series([b"a", b"b"], b"sign", b"shape") == [4925225496339173537, 7295567835437144497]
    assert keys(ada).stored == keys(models.fingerprint(models.decoder(1))).stored


def test_renamed_tensors_share_every_key_but_the_names(ada):
    other = keys(models.fingerprint(models.renamed(models.decoder(1)))).stored
    shared = set(keys(ada).stored) & set(other)
    assert len(shared) >= len(other) - 2


def test_noise_keeps_bands_and_strangers_share_nothing(ada, noisy_ada, bob):
    def shared(other):
        return [kind for key, kind in keys(other).probes.items() if key in keys(ada).stored]

    assert shared(noisy_ada).count(Kind.SIGN) > 50
    assert set(shared(bob)) <= {Kind.UNIT, Kind.HEAD}  # codes of random heads collide now and then
    assert len(shared(bob)) < 20


def test_every_key_fits_a_signed_64_bit_column(ada):
    assert all(-(1 << 63) <= key < 1 << 63 for key in keys(ada).probes)


def test_the_copied_model_is_proposed_first(registry, index, ada, bob, noisy_ada):
    ids = {name: registry.add(f, BASE).model.id for name, f in (("bob", bob), ("ada", ada))}
    assert index.candidates(noisy_ada, 5) == [ids["ada"], ids["bob"]]
    assert index.candidates(noisy_ada, 1) == [ids["ada"]]
    assert index.candidates(noisy_ada, 5, without=[ids["ada"]]) == [ids["bob"]]


def test_an_empty_registry_proposes_nothing(index, ada):
    assert index.candidates(ada, 5) == []


def test_withdrawn_models_are_not_proposed(registry, index, ada, bob):
    model = registry.add(ada, BASE).model
    other = registry.add(bob, BASE).model.id
    assert index.candidates(ada, 5)[0] == model.id
    registry.remove(model)
    assert index.candidates(ada, 5) == [other]


def test_renamed_and_cast_copies_are_certain(registry, index, ada, bob):
    registry.add(bob, BASE)
    model = registry.add(ada, BASE).model.id
    query = models.fingerprint(models.renamed(models.decoder(1)))
    (first, *_) = index.search(query, 5)
    assert first.model_id == model
    assert first.shared >= 1000


def test_keys_that_very_many_share_do_not_hide_the_nearest(registry, index, engine, ada):
    """More siblings than a common key is looked at for: the vectors still tell them apart."""
    known = {}
    for seed in range(COMMON + 4):
        f = models.fingerprint(models.noisy(models.decoder(1), 0.1, seed=seed))
        known[seed] = registry.add(f, BASE).model.id
    query = models.fingerprint(models.noisy(models.noisy(models.decoder(1), 0.1, seed=COMMON), 0.01, seed=99))
    assert index.candidates(query, 3)[0] == known[COMMON]


def test_the_vector_cache_follows_the_database(registry, engine, tmp_path, ada, bob, noisy_ada):
    folder = tmp_path / "cache"
    registry.add(ada, BASE)
    assert len(Index(engine, folder).candidates(ada, 5)) == 1
    registry.add(bob, BASE)
    assert len(Index(engine, folder).candidates(ada, 5)) == 2
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-7])
    assert len(Index(engine, folder).candidates(ada, 5)) == 2


def test_the_cache_of_another_database_is_not_believed(registry, engine, tmp_path, ada, bob, noisy_ada):
    """As when the database file was deleted and filled again: same ids, other models."""
    folder = tmp_path / "cache"
    registry.add(bob, BASE)
    first = connect(f"sqlite:///{tmp_path}/other.db")
    ensure(first)
    other = Registry(first, Blobs((tmp_path / "blobs").as_uri()))
    other.add(ada, BASE)
    assert Index(first, folder).search(noisy_ada, 5)[0].distance < 0.2
    assert Index(engine, folder).search(noisy_ada, 5)[0].distance > 0.2
    first.dispose()


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"[1]\n" * 30, b"\0" * 5000])
def test_a_damaged_cache_is_built_again(registry, engine, tmp_path, ada, damage):
    vectors = Vectors(tmp_path / "cache")
    model = registry.add(ada, BASE).model.id
    (space, vector), *_ = spaces(ada).items()
    with reading(engine) as session:
        vectors.table(session, space)
    for path in (tmp_path / "cache").iterdir():
        path.write_bytes(damage)
    with reading(engine) as session:
        table = Vectors(tmp_path / "cache").table(session, space)
    assert table.nearest(vector, 1) == [(model, 0.0)]


def test_a_model_that_commits_late_below_a_newer_id_is_not_missed(registry, engine, ada, bob, noisy_ada):
    """On PostgreSQL ids are drawn before they are committed, so only looking above would lose one."""
    vectors = Vectors(None)
    first, second = (registry.add(f, BASE).model.id for f in (ada, bob))
    (space, vector), *_ = spaces(ada).items()
    with reading(engine) as session:
        full = vectors.table(session, space)
        vectors._tables[space] = replace(full, ids=full.ids[1:], rows=full.rows[1:])
        registry.add(noisy_ada, BASE)
    with reading(engine) as session:
        table = vectors.table(session, space)
    assert table.nearest(vector, 1)[0][0] == first
    assert np.all(np.diff(table.ids) > 0)
    assert second in table.ids


def test_fingerprints_under_another_key_never_compare(ada):
    other = replace(ada, meta=replace(ada.meta, key_id="ffffffff"))
    assert set(spaces(other)).isdisjoint(spaces(ada))
    bands = [k for k, kind in keys(other).stored.items() if kind in (Kind.SIGN, Kind.MINHASH)]
    assert not set(bands) & set(keys(ada).stored)
