"""A home with one signed snapshot of a full subnet and as many known models as are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, insert

from attest import envelope as dsse
from attest.keys import ss58
from attest.keys.interface import Signer
from attest.keys.service import account
from attest.predicates.verdict import (
    SNAPSHOT_SCHEMA,
    LogRef,
    Of,
    ParentModel,
    PolicyRef,
    Reason,
    Status,
    UidVerdict,
    Verdicts,
)
from attest.statement import state
from forensics.place import GENESIS, Clock, Place, now
from forensics.store.blobs import digest_of
from forensics.store.engine import writing
from forensics.store.tables import ModelRow, PostingRow, SubmissionRow, VectorRow
from forensics.store.verdicts import SnapshotRow

NETUID: Final = 120
PLACE: Final = Place(GENESIS["finney"], NETUID)
POSTINGS: Final = 16
"""Search keys of a known model here; a real one has up to some hundreds, and no verdict read looks at any."""
_BATCH: Final = 5000


def hotkey_of(uid: int) -> str:
    """The address of a made-up miner."""
    return ss58.encode(sha256(b"miner %d" % uid).digest())


def publish(
    engine: Engine,
    signer: Signer,
    *,
    uids: int,
    sequence: int = 1,
    leaf: int | None = 0,
    origin: str = "log.example/forensics",
    place: Place = PLACE,
    clock: Clock = now,
) -> bytes:
    """Sign a snapshot of ``uids`` verdicts, a fifth of them copies, and store it; returns its bytes."""
    issued = clock()
    moment = "%Y-%m-%dT%H:%M:%SZ"
    predicate = Verdicts(
        context=place.context(account(signer), clock=clock),
        schema=SNAPSHOT_SCHEMA,
        network="finney",
        genesis=place.genesis,
        netuid=place.netuid,
        block=8_512_345,
        sequence=sequence,
        issued_at=issued.strftime(moment),
        expires_at=(issued + timedelta(hours=1)).strftime(moment),
        policy=PolicyRef("default", 3, digest_of(b"policy")),
        log=LogRef(origin, 12345, "A" * 43 + "="),
        verdicts=tuple(_verdict(uid) for uid in range(uids)),
    )
    payload = state(predicate).payload()
    envelope = dsse.sign(payload, [signer]).to_json()
    row = {
        "genesis": place.genesis,
        "netuid": place.netuid,
        "sequence": sequence,
        "block": predicate.block,
        "digest": digest_of(payload),
        "content": digest_of(payload),
        "envelope": envelope,
        "leaf": leaf,
        "issued_at": issued,
        "expires_at": issued + timedelta(hours=1),
    }
    with writing(engine) as session:
        session.execute(insert(SnapshotRow), [row])
    return envelope


def know(engine: Engine, models: int, *, already: int = 0) -> None:
    """Fill the registry's tables up to ``models`` rows, with claims, search keys and vectors."""
    for start in range(already, models, _BATCH):
        numbers = range(start, min(start + _BATCH, models))
        with writing(engine) as session:
            session.execute(insert(ModelRow), [_model(n) for n in numbers])
            session.execute(insert(SubmissionRow), [_claim(n) for n in numbers])
            session.execute(insert(PostingRow), list(_postings(numbers)))
            vectors = [{"space": "global", "model_id": n + 1, "data": os.urandom(512)} for n in numbers]
            session.execute(insert(VectorRow), vectors)


def size_of(home: Path) -> int:
    """Bytes of the database."""
    return sum(file.stat().st_size for file in home.glob("forensics.db*"))


def _verdict(uid: int) -> UidVerdict:
    copied = uid % 5 == 4
    reasons = (
        Reason(
            code="copy.perturbed",
            detector="copy@1",
            of=Of(hotkey_of(uid - 1), sha256(b"revision %d" % (uid - 1)).hexdigest()[:40]),
            confidence="0.9999999",
            false_accusation_probability="1e-9",
            evidence=digest_of(b"evidence %d" % uid),
        ),
    )
    return UidVerdict(
        uid=uid,
        hotkey=hotkey_of(uid),
        revision=sha256(b"revision %d" % uid).hexdigest()[:40],
        content_root=digest_of(b"content %d" % uid),
        status=Status.PENALISED if copied else Status.CLEAR,
        multiplier="0.0" if copied else "1.0",
        permanent=False,
        reasons=reasons if copied else (),
        parents=(ParentModel(digest_of(b"base"), "1.0", "derived", True),),
        cluster=None,
        case=None,
    )


def _model(number: int) -> dict[str, Any]:
    root = digest_of(b"model %d" % number)
    return {
        "id": number + 1,
        "content_root": root,
        "nameless_root": root,
        "value_root": root,
        "algorithm": "fingerprint-v1",
        "family": "qwen2",
        "parameters": 494_032_768,
        "blob": root,
        "blob_size": 400_000,
        "added_at": now(),
    }


def _claim(number: int) -> dict[str, Any]:
    claim = {"model_id": number + 1, "role": "submission", "hotkey": hotkey_of(number), "block": number}
    return claim | {"extrinsic": 0, "added_at": now()}


def _postings(numbers: range) -> Iterator[dict[str, int]]:
    for number in numbers:
        keys = sha256(b"keys %d" % number).digest() + sha256(b"more %d" % number).digest()
        for at in range(POSTINGS):
            yield {"key": int.from_bytes(keys[at * 4 : at * 4 + 4]) * (at + 1), "model_id": number + 1}
