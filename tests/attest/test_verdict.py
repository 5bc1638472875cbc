"""The snapshot of a subnet: what is refused, and that reading one needs nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attest import canonical
from attest.errors import AttestError, MalformedInput
from attest.keys import ss58
from attest.predicates.verdict import MAX_REASONS, MAX_VERDICTS, Status, UidVerdict, Verdicts
from attest.statement import parse, state, subnet_digest
from tests.attest.material import GENESIS, NETUID, snapshot

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "bittensor", "numpy", "sqlalchemy", "fastapi", "httpx2")


def members(count: int) -> tuple[UidVerdict, ...]:
    silent = judged().verdicts[1]
    return tuple(replace(silent, uid=i, hotkey=ss58.encode(i.to_bytes(32))) for i in range(count))


def judged() -> Verdicts:
    predicate = snapshot().predicate
    assert isinstance(predicate, Verdicts)
    return predicate


def test_reading_a_snapshot_imports_nothing_heavy() -> None:
    code = f"import attest.checking, attest.log.proof, sys; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_subject_is_the_subnet() -> None:
    assert snapshot().digest_of("subnet") == subnet_digest(GENESIS, NETUID)
    elsewhere = canonical.read_object(snapshot().payload())
    elsewhere["subject"][0]["digest"]["sha256"] = subnet_digest(GENESIS, NETUID + 1)[7:]
    with pytest.raises(MalformedInput, match="subject"):
        parse(canonical.write(elsewhere))


def test_written_and_read_again_it_is_the_same_bytes_also_when_full() -> None:
    full = state(replace(judged(), verdicts=members(1024)))
    assert parse(full.payload()) == full
    assert parse(full.payload()).payload() == full.payload()


def test_one_verdict_too_many_is_refused_before_it_is_read() -> None:
    crowd = canonical.read_object(snapshot().payload())
    crowd["predicate"]["verdicts"] = [None] * (MAX_VERDICTS + 1)
    with pytest.raises(AttestError, match="too many items"):
        parse(canonical.write(crowd))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda v: replace(v, verdicts=(v.verdicts[0], replace(v.verdicts[1], uid=12))), "one uid"),
        (lambda v: replace(v, verdicts=(v.verdicts[0], replace(v.verdicts[1], hotkey=v.verdicts[0].hotkey))), "hotkey"),
        (lambda v: replace(v, verdicts=(replace(v.verdicts[1], multiplier="0.5"),)), "unknown, and yet penalised"),
        (lambda v: replace(v, verdicts=(replace(v.verdicts[0], status=Status.UNKNOWN),)), "unknown, and yet penalised"),
        (lambda v: replace(v, verdicts=(replace(v.verdicts[0], multiplier="1.1"),)), "wrong form"),
        (lambda v: replace(v, verdicts=(replace(v.verdicts[0], multiplier="-0.5"),)), "wrong form"),
        (lambda v: replace(v, verdicts=(replace(v.verdicts[0], multiplier="5e-1"),)), "wrong form"),
        (lambda v: replace(v, verdicts=(replace(v.verdicts[0], multiplier=0.5),)), "not text"),
        (lambda v: replace(v, verdicts=(replace(v.verdicts[0], revision="main"),)), "wrong length|wrong form"),
        (lambda v: replace(v, verdicts=(replace(v.verdicts[0], uid=65536),)), "out of range"),
        (lambda v: replace(v.verdicts[0], reasons=v.verdicts[0].reasons * (MAX_REASONS + 1)), "many"),
        (lambda v: replace(v, expires_at=v.issued_at), "expires"),
        (lambda v: replace(v, netuid=v.netuid + 1), "netuid differs"),
        (lambda v: replace(v, genesis="0x" + "0" * 64), "genesis differs"),
        (lambda v: replace(v, schema="forensics/snapshot/v2"), "wrong form"),
    ],
)  # fmt: skip
def test_what_a_snapshot_cannot_say(change: Callable[[Verdicts], Any], reason: str) -> None:
    with pytest.raises(AttestError, match=reason):
        change(judged())
