"""The benchmark of attesting measures what it says: whole files, real claims, receipts that verify."""

from __future__ import annotations

import json

from benchmarks.attest import hashing, receipts
from benchmarks.attest.__main__ import main, two_shards
from benchmarks.speed import synthetic
from forensics.claims.measure import measure


def test_both_layouts_are_one_model_and_every_file_is_hashed(tmp_path):
    single = synthetic.checkpoint(synthetic.TINY, tmp_path)
    sharded = two_shards(tmp_path, single)
    one, two = measure(single).roots, measure(sharded).roots
    assert (one.content, one.nameless) == (two.content, two.nameless)
    assert one.oms != two.oms
    files = hashing.files_of(sharded)
    assert hashing.one_stream(files) == hashing.two_threads(files)
    assert len(files) == 4


def test_a_receipt_is_verified_by_the_library_and_by_the_command(tmp_path):
    file, log = receipts.make(tmp_path, leaves=1200)
    assert all(ms > 0 for ms in receipts.verify_ms(file, log, times=3))
    assert receipts.command_ms(file, log, tmp_path / "home", times=1) > 0


def test_the_command_prints_its_table_and_writes_its_figures(tmp_path, capsys):
    out = tmp_path / "figures.json"
    asked = ["--quick", "--turns", "1", "--leaves", "50", "--times", "2"]
    assert main([*asked, "--cache", str(tmp_path), "--out", str(out)]) == 0
    assert "ratio" in capsys.readouterr().out
    figures = json.loads(out.read_text())
    assert set(figures["hashing"]) == {"one file", "two shards"}
    assert figures["receipt"]["verify_ms"]["median"] > 0
