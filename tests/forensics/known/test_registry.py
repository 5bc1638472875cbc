from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import time
from dataclasses import replace

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fingerprint.file import save
from forensics.cli.main import main
from forensics.errors import BadInput, NotKnown, StoreUnavailable, UsageError
from forensics.known.claim import Claim, Role, precedence
from forensics.known.registry import Registry
from forensics.store.blobs import Blobs
from forensics.store.engine import connect, reading
from forensics.store.migrate import ensure
from forensics.store.tables import ModelRow, PostingRow, SubmissionRow, VectorRow

BASE = Claim(Role.BASE, label="base")


def submitted(hotkey: str, block: int, extrinsic: int = 0) -> Claim:
    return Claim(Role.SUBMISSION, label=hotkey, hotkey=hotkey, block=block, extrinsic=extrinsic)


def counts(engine) -> dict[str, int]:
    with reading(engine) as session:
        return {
            row.__tablename__: session.execute(select(func.count()).select_from(row)).scalar_one()
            for row in (ModelRow, SubmissionRow, PostingRow, VectorRow)
        }


def test_a_model_comes_back_with_its_fingerprint_and_claim(registry, ada):
    added = registry.add(ada, submitted("ada", 7, 3))
    (model,) = registry.models()
    assert (added.new_model, added.new_claim, model) == (True, True, added.model)
    assert model.content_root == ada.content_root
    assert model.earliest.claim.block == 7
    assert registry.fingerprint(model).content_root == ada.content_root
    assert registry.find(ada.content_root[:20]) == model == registry.get([model.id])[0]


def test_one_model_many_claims_and_the_earliest_counts(registry, engine, ada):
    registry.add(ada, submitted("late", 9))
    before = counts(engine)
    added = registry.add(ada, submitted("early", 5))
    assert (added.new_model, added.new_claim) == (False, True)
    assert added.model.earliest.claim.hotkey == "early"
    assert counts(engine) == before | {"submission": 2}


def test_the_same_claim_twice_is_one_claim(registry, engine, ada):
    registry.add(ada, submitted("ada", 7))
    before = counts(engine)
    assert not registry.add(ada, submitted("ada", 7)).new_claim
    assert counts(engine) == before


def test_one_extrinsic_cannot_claim_two_contents(registry, engine, ada, bob):
    registry.add(ada, submitted("ada", 7, 1))
    before = counts(engine)
    with pytest.raises(BadInput, match="already claims other content"):
        registry.add(bob, submitted("ada", 7, 1))
    assert counts(engine) == before
    registry.add(bob, submitted("ada", 7, 2))


def test_the_database_orders_claims_as_precedence_does(registry, ada, bob, noisy_ada):
    claims = [
        (ada, submitted("a", 9, 2)),
        (bob, submitted("b", 9, 1)),
        (noisy_ada, Claim(Role.SUBMISSION, label="no block", hotkey="c")),
        (noisy_ada, Claim(Role.SUBMISSION, hotkey="d", block=9)),
    ]
    ids = [registry.add(fingerprint, claim).model.id for fingerprint, claim in claims]
    expected = [m.id for m in sorted(registry.models(), key=lambda m: precedence(m.earliest))]
    assert registry.earliest_of(ids, 5) == expected
    registry.add(noisy_ada, BASE)
    assert registry.earliest_of(ids, 1) == [ids[2]]
    assert registry.earliest_of([], 5) == []


def test_removing_withdraws_and_keeps_on_record(registry, ada):
    model = registry.add(ada, submitted("ada", 7)).model
    registry.add(ada, submitted("eve", 8))
    assert [s.claim.hotkey for s in registry.remove(model, hotkey="ada", reason="reported")] == ["ada"]
    assert registry.models()[0].earliest.claim.hotkey == "eve"
    registry.remove(model)
    assert registry.models() == []
    assert registry.count() == 0
    (kept,) = registry.models(withdrawn=True)
    assert [s.withdrawn_reason for s in kept.submissions] == ["reported", None]
    with pytest.raises(NotKnown, match="no claim"):
        registry.remove(model)


def test_what_was_withdrawn_can_be_claimed_again(registry, ada):
    model = registry.add(ada, submitted("ada", 7)).model
    registry.remove(model)
    assert registry.add(ada, submitted("ada", 7)).new_claim
    assert len(registry.models(withdrawn=True)[0].submissions) == 2


def test_finding_by_digest(registry, ada, bob):
    registry.add(ada, BASE)
    with pytest.raises(NotKnown):
        registry.find(bob.content_root)
    for text in ("", "sha256:12", "sha256:" + "z" * 64, "%"):
        with pytest.raises(UsageError, match="hex digits"):
            registry.find(text)


def test_a_model_scanned_by_a_newer_algorithm_stays_one_model_and_is_found_again(registry, index, engine, ada):
    """The old fingerprint no longer compares; the claims must not have to be made again."""
    old = replace(ada, meta=replace(ada.meta, algorithm="fingerprint-v0"))
    registry.add(old, submitted("ada", 7))
    added = registry.add(ada, submitted("eve", 9))
    assert (added.new_model, added.model.earliest.claim.hotkey) == (False, "ada")
    assert registry.fingerprint(registry.find(ada.content_root)).algorithm == ada.algorithm
    assert index.search(ada, 3)[0].distance == 0
    registry.add(ada, submitted("ada", 7))
    assert counts(engine)["vector"] == 4


def test_a_lost_blob_is_healed_by_adding_the_model_again(registry, blobs, tmp_path, ada):
    model = registry.add(ada, BASE).model
    for path in (tmp_path / "blobs").rglob("*"):
        if path.is_file():
            path.unlink()
    with pytest.raises(StoreUnavailable, match="Register the model again"):
        registry.fingerprint(model)
    registry.add(ada, BASE)
    assert registry.fingerprint(model).content_root == ada.content_root


def test_a_disk_that_is_full_changes_nothing(registry, engine, ada, bob, monkeypatch):
    registry.add(ada, BASE)
    before = counts(engine)
    monkeypatch.setattr(Blobs, "_write", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(StoreUnavailable, match="No space left"):
        registry.add(bob, BASE)
    assert counts(engine) == before


# Other processes are forked, for a fresh interpreter spends seconds importing torch.
FORK = multiprocessing.get_context("fork")


def add_all(url, blobs, fingerprints, go):
    registry = Registry(connect(url, busy_seconds=60), Blobs(blobs))
    go.wait()
    for number, fingerprint in enumerate(fingerprints):
        registry.add(fingerprint, Claim(Role.SUBMISSION, hotkey="h", block=number, extrinsic=number))


@pytest.fixture
def writer(engine, database_url, tmp_path, ada, bob):
    """Starts a process that adds two models when the gate opens."""
    started = []

    def start(gate):
        engine.dispose()
        process = FORK.Process(target=add_all, args=(database_url, (tmp_path / "blobs").as_uri(), [ada, bob], gate))
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.join(60)


def test_processes_that_add_the_same_models_at_once_add_them_once(writer, engine):
    gate = FORK.Event()
    processes = [writer(gate) for _ in range(3)]
    gate.set()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert counts(engine) | {"posting": 0} == {"model": 2, "submission": 2, "posting": 0, "vector": 4}


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1])
def test_a_killed_writer_leaves_a_model_whole_or_not_at_all(writer, registry, engine, delay):
    gate = FORK.Event()
    process = writer(gate)
    gate.set()
    time.sleep(delay)
    process.kill()
    process.join(60)
    for model in registry.models(withdrawn=True):
        registry.fingerprint(model)
        assert model.submissions
    found = counts(engine)
    assert found["vector"] == 2 * found["model"]
    assert (found["posting"] > 0) == (found["model"] > 0)


def add_with_little_room(path, limit, talk):
    """The command itself, under a limit of the system that stops a write as a full disk or a quota does."""
    with open(talk, "w") as out, contextlib.redirect_stderr(out):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        code = main(["known", "add", path, "--label", "second"])
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    os._exit(code)


@pytest.mark.parametrize("limit", [4096, 100_000, 300_000])
def test_a_file_size_limit_is_reported_and_changes_nothing(tmp_path, own_home, ada, bob, capsys, limit):
    for name, fingerprint in (("ada", ada), ("bob", bob)):
        save(fingerprint, tmp_path / f"{name}.fp")
    assert main(["known", "add", str(tmp_path / "ada.fp"), "--label", "first"]) == 0
    talk = tmp_path / "talk"
    process = FORK.Process(target=add_with_little_room, args=(str(tmp_path / "bob.fp"), limit, talk))
    process.start()
    process.join(60)
    assert process.exitcode == 4
    assert "error: " in talk.read_text()
    assert "nothing was changed" in talk.read_text()
    capsys.readouterr()
    assert main(["known", "list"]) == 0
    listed = capsys.readouterr().out
    assert "first" in listed
    assert "second" not in listed


@pytest.mark.postgres
def test_a_writer_that_waits_too_long_on_postgresql_is_told_so(postgres_url, blobs, ada):
    url = postgres_url.replace("postgresql://", "postgresql+psycopg://")
    holder, late = connect(url), connect(url, busy_seconds=0.2)
    ensure(holder)
    with holder.begin() as connection:
        Registry._serialise(Session(connection))
        with pytest.raises(StoreUnavailable, match="another process"):
            Registry(late, blobs).add(ada, BASE)
    assert Registry(late, blobs).add(ada, BASE).new_model
    holder.dispose()
    late.dispose()


def test_claims_are_checked_before_anything_is_written(registry, engine, ada):
    with pytest.raises(UsageError, match="--block"):
        registry.add(ada, replace(BASE, block=-1))
    assert counts(engine)["model"] == 0


def test_the_registry_works_on_a_fresh_engine(engine, blobs, ada):
    Registry(engine, blobs).add(ada, BASE)
    assert Registry(engine, blobs).models()[0].submissions[0].added_at.tzinfo is not None
