"""What must hold however often something was killed; each check raises ``AssertionError`` on the first thing wrong."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from sqlalchemy import Engine, select

from attest import envelope as dsse
from attest.log import Log
from attest.predicates import Verdicts as Predicate
from attest.statement import parse
from forensics.attestations.record import leaf_of
from forensics.client import VerdictClient
from forensics.client.snapshot import Snapshot
from forensics.entries.claimed import State
from forensics.entries.entries import Entries
from forensics.keys import Keys
from forensics.log_store import DatabaseLog
from forensics.settings import Settings
from forensics.store.engine import reading
from forensics.store.verdicts import SnapshotRow, VerdictRow

from .field import GENESIS, NETUID, Planned


def finished(engine: Engine, count: int) -> bool:
    """Whether every submission is there and at an end."""
    found = Entries(engine).counts()
    return sum(found.values()) >= count and set(found) <= {State.JUDGED, State.PARKED, State.REFUSED}


def check(engine: Engine, settings: Settings, plan: Sequence[Planned]) -> dict[str, float]:
    """Compare everything on record with what was submitted."""
    entries = Entries(engine).of(NETUID)
    lost = {p.hotkey for p in plan} - {e.claimed.hotkey for e in entries}
    assert not lost, f"lost: {sorted(lost)[:3]}"
    assert len(entries) == len(plan), "a submission is there twice"
    stuck = [(e.state, e.reason) for e in entries if e.state is not State.JUDGED]
    assert not stuck, f"not judged: {stuck[:3]}"
    twice = _verdicts(engine, plan)
    return {**twice, **_snapshots(engine, settings, plan)}


def _verdicts(engine: Engine, plan: Sequence[Planned]) -> dict[str, float]:
    """One verdict a submission, and a true one."""
    with reading(engine) as session:
        rows = session.execute(
            select(VerdictRow.entry_id, VerdictRow.inputs, VerdictRow.hotkey, VerdictRow.status)
        ).all()
    per_entry = Counter(row.entry_id for row in rows)
    same = Counter((row.entry_id, row.inputs) for row in rows)
    assert len(per_entry) == len(plan), "a submission has no verdict"
    assert max(same.values()) == 1, "the same inputs were judged twice"
    assert max(per_entry.values()) == 1, f"judged again: {sum(n > 1 for n in per_entry.values())} submissions"
    said = {row.hotkey: row.status for row in rows}
    accused = [p.hotkey for p in plan if p.of is None and said[p.hotkey] in ("penalised", "rejected", "held")]
    missed = [p.did for p in plan if p.of is not None and said[p.hotkey] not in ("penalised", "rejected")]
    assert not accused, f"originals were blamed: {accused[:3]}"
    return {"judged": len(per_entry), "judged_twice": 0, "originals_blamed": 0, "copies_missed": len(missed)}


def _snapshots(engine: Engine, settings: Settings, plan: Sequence[Planned]) -> dict[str, float]:
    """Gapless, signed, logged; the log is one tree that grew."""
    keys = Keys.of(settings)
    signer, key = keys.service(), keys.service_public(origin=settings.origin)
    log = Log(DatabaseLog(engine), signer, origin=key.name)  # audits every tile and checkpoint
    assert log.evidence() == (), "the log holds evidence of two histories"
    with reading(engine) as session:
        rows = list(session.scalars(select(SnapshotRow).order_by(SnapshotRow.sequence)))
    assert [row.sequence for row in rows] == list(range(1, len(rows) + 1)), "the sequence has a gap"
    assert all(row.leaf is not None for row in rows), "a snapshot is not in the log"
    assert len({row.leaf for row in rows}) == len(rows), "one leaf stands for two snapshots"
    with DatabaseLog(engine).reading() as view:
        leaves = {leaf.index: leaf.body for leaf in view.leaves(0, view.size())}
    said = []
    for row in rows:
        envelope = dsse.read(row.envelope, where="snapshot")
        dsse.verify(envelope, [signer.verifier])
        assert leaves[row.leaf or 0] == leaf_of(envelope), "the log holds another snapshot"
        predicate = parse(envelope.payload, where="snapshot").predicate
        assert isinstance(predicate, Predicate)
        assert predicate.sequence == row.sequence
        said.append(predicate)
    assert all(a.block <= b.block and a.log.size <= b.log.size for a, b in pairwise(said)), "time ran backwards"
    judged = {v.hotkey for v in said[-1].verdicts if v.status != "unknown"}
    assert judged >= {p.hotkey for p in plan}, "the newest snapshot lacks a verdict"
    return {"snapshots": len(rows), "leaves": len(leaves), "sequence_gaps": 0, "forks": 0}


def unknown(snapshot: Snapshot) -> int:
    """How many uids it has no verdict on."""
    return sum(v.status == "unknown" for v in snapshot.verdicts.verdicts)


def client_of(settings: Settings, url: str) -> VerdictClient:
    """The client as a validator has it."""
    logging.getLogger("forensics.client").setLevel(logging.CRITICAL)  # it is loud about every server that was killed
    key = Keys.of(settings).service_public(origin=settings.origin)
    return VerdictClient(url, key, netuid=NETUID, network=settings.network, genesis=GENESIS)
