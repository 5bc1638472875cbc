"""Identification over a made-up subnet; the comparison is the real one."""

from __future__ import annotations

import pytest

from fingerprint.compare import Relation, Source, load_calibration
from forensics.known.claim import Claim, Role
from forensics.known.identify import Identifier
from tests.forensics import models

# Both databases are tested where something is stored or searched; what follows from it is the same on either.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def submitted(name: str, block: int | None) -> Claim:
    return Claim(Role.SUBMISSION, label=name, hotkey=name, block=block, extrinsic=None if block is None else 0)


@pytest.fixture
def identifier(registry, index):
    return Identifier(registry, index, calibration=load_calibration())


def best(found) -> str:
    return found.best.model.earliest.claim.label


def test_among_many_copies_the_original_is_named_however_far_it_ranks(registry, identifier, ada, bob):
    """All copies are nearer than the original; still it is the original that was copied."""
    for seed in range(4):
        copy = models.noisy(models.noisy(models.decoder(1), 0.05, seed=50), 0.001, seed=seed)
        registry.add(models.fingerprint(copy), submitted(f"copy {seed}", 100 + seed))
    registry.add(ada, submitted("original", 7))
    registry.add(bob, submitted("stranger", 1))
    query = models.fingerprint(models.noisy(models.noisy(models.decoder(1), 0.05, seed=50), 0.001, seed=99))
    found = identifier.identify(Source(query), limit=16, nearest=2)
    assert found.finding
    assert best(found) == "original"
    assert found.searched == 6


def test_an_original_that_many_copies_crowd_out_of_the_search_is_still_found(registry, identifier, ada):
    registry.add(ada, submitted("original", 7))
    for seed in range(6):
        copy = models.noisy(models.noisy(models.decoder(1), 0.02, seed=50), 0.01, seed=seed)
        registry.add(models.fingerprint(copy), submitted(f"copy {seed}", 100 + seed))
    query = models.fingerprint(models.noisy(models.noisy(models.decoder(1), 0.02, seed=50), 0.01, seed=99))
    assert best(identifier.identify(Source(query), limit=3, nearest=2)) == "original"


def test_strangers_are_independent_and_no_finding(registry, identifier, ada, bob):
    registry.add(bob, submitted("bob", 1))
    found = identifier.identify(Source(ada), limit=16)
    assert not found.finding
    assert found.best.comparison.relation is Relation.INDEPENDENT
    assert found.false_accusation_probability == 1.0


def test_a_copy_of_the_base_is_a_copy_whatever_else_is_claimed(registry, identifier, ada, noisy_ada):
    registry.add(ada, Claim(Role.BASE, label="base"))
    found = identifier.identify(Source(noisy_ada), limit=16, claim=submitted("me", 5))
    assert found.finding
    assert best(found) == "base"


@pytest.mark.parametrize(
    ("theirs", "mine", "finding"),
    [(5, 6, True), (6, 5, False), (5, 5, False), (None, 5, False), (5, None, True)],
)
def test_only_what_is_shown_to_be_earlier_accuses(registry, identifier, ada, noisy_ada, theirs, mine, finding):
    registry.add(ada, submitted("ada", theirs))
    assert identifier.identify(Source(noisy_ada), limit=16, claim=submitted("me", mine)).finding is finding


def test_a_merge_names_its_parents_though_copies_of_them_are_known_too(registry, identifier):
    one, two = (models.noisy(models.decoder(1), 0.1, seed=seed) for seed in (5, 6))
    registry.add(models.fingerprint(models.renamed(models.noisy(two, 0.001))), submitted("copy of two", 9))
    for name, tensors, block in (("one", one, 1), ("two", two, 2)):
        registry.add(models.fingerprint(tensors), submitted(name, block))
    soup = {n: ((one[n].float() + two[n].float()) / 2).to(t.dtype) for n, t in one.items()}
    found = identifier.identify(Source(models.fingerprint(soup)), limit=16)
    assert found.best.comparison.relation is Relation.MERGED
    parents = {
        m.earliest.claim.label: p.weight for p in found.best.comparison.parents for m in registry.by_root([p.digest])
    }
    assert parents == pytest.approx({"one": 0.5, "two": 0.5}, abs=0.05)
    assert not found.finding


def test_a_blob_that_is_lost_is_skipped_with_a_reason(registry, identifier, tmp_path, ada, bob, noisy_ada):
    registry.add(bob, submitted("bob", 1))
    model = registry.add(ada, submitted("ada", 1)).model
    name = model.blob.removeprefix("sha256:")
    (tmp_path / "blobs" / name[:2] / name).write_bytes(b"damaged")
    found = identifier.identify(Source(noisy_ada), limit=16)
    assert [m.model.earliest.claim.label for m in found.matches] == ["bob"]
    assert "damaged" in found.skipped[0]
    assert ada.content_root in found.skipped[0]


def test_many_comparisons_count_against_an_accusation(registry, identifier, ada, bob, noisy_ada):
    registry.add(ada, submitted("ada", 1))
    one = identifier.identify(Source(noisy_ada), limit=16).false_accusation_probability
    registry.add(bob, submitted("bob", 1))
    two = identifier.identify(Source(noisy_ada), limit=16).false_accusation_probability
    assert two == pytest.approx(2 * one)


def test_everything_skipped_is_an_identification_without_matches(registry, identifier, ada):
    found = identifier.identify(Source(ada), limit=16)
    assert (found.matches, found.finding, found.best) == ((), False, None)
