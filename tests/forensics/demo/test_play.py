"""The subnet goes through the real service: processes, SQLite, HTTP, a signed snapshot, the client that checks it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fingerprint.compare.relation import Relation
from forensics.demo import play
from forensics.demo.next_steps import next_steps
from forensics.demo.stage import BASE, COURSES, Stage
from forensics.demo.subnet import MINERS, NOT_FOUND, SILENT, WAVES, Miner
from forensics.known import address
from tests.forensics import models

ADA = models.decoder(1)


def uploads(tensors: models.Tensors):
    return lambda stage, folder: bool(models.write(tensors, folder))


FEW = (
    (Miner("ada", "drew a model", (Relation.INDEPENDENT,), (), uploads(ADA)),),
    (
        Miner("eve", "renamed it", (Relation.IDENTICAL,), ("ada",), uploads(models.renamed(ADA))),
        Miner("pat", "named nothing", (), (), None, NOT_FOUND),
    ),
)


def test_every_class_of_copy_and_every_honest_kind_is_in_the_cast():
    first = [miner.relations[0] for miner in MINERS if miner.relations]
    assert {Relation.IDENTICAL, Relation.EQUIVALENT, Relation.PERTURBED} <= set(first)
    assert {Relation.DERIVED, Relation.SIBLING, Relation.MERGED, Relation.INDEPENDENT} <= set(first)
    assert len({miner.name for miner in MINERS}) == len(MINERS) >= 12


def test_whoever_is_copied_commits_in_an_earlier_wave():
    known = {BASE}
    for wave in WAVES:
        assert all(parent in known for miner in wave for parent in miner.of if miner.copy)
        known |= {miner.name for miner in wave}
    assert set(COURSES) - {BASE} <= known


def test_hotkeys_are_well_formed_and_distinct():
    everybody = [*MINERS, *SILENT]
    addresses = {m.hotkey for m in everybody} | {m.coldkey for m in everybody}
    assert len(addresses) == 2 * len(everybody)
    assert all(address.normalise(text) == (text, True) for text in addresses)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("at_once", [False, True], ids=["in order", "all at once"])
def test_a_few_miners_are_judged_and_read(tmp_path, at_once):
    models.write(models.decoder(0), tmp_path / BASE)
    for miner in (m for wave in FEW for m in wave if m.make):
        miner.make(None, play.hub_of(tmp_path) / miner.repo / miner.revision)  # type: ignore[arg-type]
    with play.open_show(tmp_path, FEW, say=print) as show:
        judged = show.play(say=print, at_once=at_once)
        steps = next_steps(show, judged, show.reading(), tmp_path)
        service = show.running.process
    said = {one.miner.name: (str(one.answer.status), one.answer.multiplier, one.answer.code) for one in judged}
    assert said == {
        "ada": ("clear", 1.0, ""),
        "eve": ("penalised", 0.0, "copy.identical"),
        "pat": ("unknown", 1.0, "not_found"),
        "quin": ("unknown", 1.0, "no_commitment"),
    }
    assert all(one.right for one in judged)
    assert [step.good for step in steps] == [True] * 5  # all but the first two were done, too
    assert service.returncode is not None


@pytest.mark.slow
@pytest.mark.models
@pytest.mark.timeout(1800)
def test_the_whole_subnet_is_judged_alike_in_order_and_all_at_once(tmp_path: Path):
    ready = play.prepare(tmp_path / "trained", say=print)
    found = []
    for name in ("in order", "all at once"):
        folder = tmp_path / name
        there = Stage(ready.trained, ready.tokenizer, ready.minilm, folder)
        with play.open_show(folder, play.upload(there), say=print) as show:
            judged = show.play(say=print, at_once=name == "all at once")
        assert not [one.miner.name for one in judged if one.accused or one.missed]
        found.append({one.miner.name: (one.answer.status, one.answer.code, one.answer.of) for one in judged})
    assert found[0] == found[1]
