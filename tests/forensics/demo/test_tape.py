"""The demo's chain must show what its cast did, in order, and no more than has happened so far."""

from __future__ import annotations

import pytest

from forensics.chain.claims import Standing, claims
from forensics.chain.grammar import Rules
from forensics.chain.recorded_subnet import RecordedSubnet
from forensics.demo.subnet import MINERS, SILENT, WAVES
from forensics.demo.tape import NETUID, record


@pytest.fixture
def tape(tmp_path, monkeypatch):
    monkeypatch.setenv("BTCLI_TOKEN_SYMBOLS_CACHE", str(tmp_path / "symbols.json"))
    return record(tmp_path / "chain" / "subnet.json")


def moments(tape, shown: int) -> RecordedSubnet:
    tape.show(shown)
    return RecordedSubnet.parse(tape.path.read_bytes())


def test_every_look_shows_one_more_wave_of_commitments(tape):
    assert not tape.path.exists()
    assert tape.looks == len(WAVES) + 1
    for shown in range(1, tape.looks + 1):
        recorded = moments(tape, shown)
        while recorded.advance():
            pass
        state = recorded.state(NETUID, recorded.finalized())
        committed = {commit.hotkey for commit in state.commits}
        assert committed == {miner.hotkey for wave in WAVES[: shown - 1] for miner in wave}
        assert len(state.neurons) == len(MINERS) + len(SILENT)


def test_what_happened_between_looks_is_there_block_by_block(tape):
    recorded = moments(tape, tape.looks)
    while recorded.advance():
        pass
    for miner in MINERS:
        [commit] = recorded.happened(NETUID, tape.blocks[miner.hotkey]).commits
        assert commit.hotkey == miner.hotkey
    blocks = [tape.blocks[miner.hotkey] for miner in MINERS]
    assert blocks == sorted(set(blocks))


def test_commitments_keep_affines_rules(tape):
    recorded = moments(tape, tape.looks)
    while recorded.advance():
        pass
    state = recorded.state(NETUID, recorded.finalized())
    standing = {c.hotkey: c for c in claims(state.neurons, state.commits, (), Rules.of("affine"))}
    for miner in MINERS:
        claim = standing[miner.hotkey]
        assert claim.standing is Standing.NAMED, claim.reason
        assert claim.named is not None
        assert (claim.named.repo, claim.named.revision) == (miner.repo, miner.revision)
    assert {standing[miner.hotkey].standing for miner in SILENT} == {Standing.NONE}
