from __future__ import annotations

import dataclasses

import pytest

from detectors.overfit.results import Row, from_rows
from forensics.errors import BadInput
from forensics.place import Place
from forensics.results.store import ResultStore

PLACE = Place("0x" + "07" * 32, 120)
ROWS = [
    Row(1, "ada", "sat", "1", True, 0.5),
    Row(1, "bob", "sat", "1", True, 1.0),
    Row(1, "ada", "sat", "2", False, 0.1, "val"),
    Row(2, "ada", "list", "1", False, 0.25),
]


@pytest.fixture
def store(engine):
    return ResultStore(engine, PLACE)


def test_what_is_kept_comes_back_as_it_was(store):
    kept = store.add(from_rows(ROWS))
    assert (kept.new, kept.scores) == (True, 4)
    assert from_rows(store.rows()).digest() == from_rows(ROWS).digest() == kept.digest
    assert store.epochs() == {1: 3, 2: 1}
    assert [row.epoch for row in store.rows(since=2)] == [2]


def test_the_same_rows_again_change_nothing_and_new_ones_are_added(store):
    store.add(from_rows(ROWS[:2]))
    assert store.add(from_rows(ROWS[:2])).new is False
    assert store.add(from_rows(ROWS)).scores == 2
    assert len(list(store.rows())) == 4


def test_another_score_or_exposure_is_refused_whole(store):
    store.add(from_rows(ROWS))
    changed = [Row(3, "ada", "sat", "1", True, 1.0), ROWS[0]._replace(score=0.75)]
    with pytest.raises(BadInput, match=r"epoch 1, sat, item 1, hotkey ada.*got 0\.75, expected 0\.5"):
        store.add(from_rows(changed))
    with pytest.raises(BadInput, match=r"item 1: .*exposure.*got exposed 0"):
        store.add(from_rows([ROWS[0]._replace(exposed=False, hotkey="eve")]))
    assert store.epochs() == {1: 3, 2: 1}


def test_two_reporters_may_differ(store):
    store.add(from_rows(ROWS))
    store.add(from_rows([ROWS[0]._replace(score=0.75)]), reporter="val")
    assert [row.score for row in store.rows(reporter="val")] == [0.75]
    assert len(list(store.rows())) == 4


@pytest.mark.parametrize("changes", [{"netuid": 7}, {"genesis": "0x" + "08" * 32}, {"competition": "other"}])
def test_two_subnets_may_number_their_epochs_alike(engine, store, changes):
    """The same epoch, environment and item elsewhere are other items, whatever their exposure and scores."""
    other = ResultStore(engine, dataclasses.replace(PLACE, **changes))
    store.add(from_rows(ROWS))
    contrary = [row._replace(exposed=not row.exposed, validator=None, score=1 - row.score) for row in ROWS]
    assert other.add(from_rows(contrary)).scores == 4
    assert other.add(from_rows(contrary)).new is False
    assert from_rows(store.rows()).digest() == from_rows(ROWS).digest()
    assert from_rows(other.rows()).digest() == from_rows(contrary).digest()
    assert store.epochs() == other.epochs() == {1: 3, 2: 1}
    assert other.add(from_rows(contrary[3:]), reporter="val").new is True
