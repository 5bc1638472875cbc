"""From commitments of real (tiny) checkpoints to a signed snapshot, as a validator reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from attest.checking import Expected, check
from attest.log import verify_receipt
from attest.predicates.verdict import Status, UidVerdict, Verdicts
from forensics import evidence
from forensics.attestations.record import envelope_of
from forensics.store.blobs import Blobs
from forensics.store.engine import connect
from forensics.store.migrate import ensure
from tests.forensics import models
from tests.forensics.attesting import GENESIS, NETUID
from tests.forensics.verdicts.field import SIGNER, Field, hotkey, revision, trained


@dataclass(frozen=True)
class Chain:
    """Owners of hotkeys, as a metagraph shows them."""

    owners: dict[str, str]

    def coldkey(self, hotkey: str) -> str | None:
        return self.owners.get(hotkey)

    def operator(self, hotkey: str) -> str | None:
        return None


def by_name(field: Field, verdicts: Verdicts) -> dict[str, UidVerdict]:
    found = {verdict.hotkey: verdict for verdict in verdicts.verdicts}
    return {name: found[hotkey(name)] for name in field.names}


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Iterator[Field]:
    """Both databases are tested where something is stored; what follows from it is the same on either."""
    folder = tmp_path_factory.mktemp("played")
    engine = connect(f"sqlite:///{folder / 'forensics.db'}")
    ensure(engine)
    field = Field(engine, Blobs((folder / "blobs").as_uri()), folder / "cache")
    field.owners = Chain({hotkey("ada"): "cold of ada", hotkey("ada2"): "cold of ada"})
    base, ada = models.decoder(1), trained(models.decoder(1))
    field.base(models.fingerprint(base))
    field.submit("ada", models.fingerprint(ada), block=10)
    field.submit("eve", models.fingerprint(models.noisy(ada, 0.01)), block=20)
    field.submit("rex", models.fingerprint(models.renamed(ada)), block=21)
    field.submit("cleo", models.fingerprint(trained(ada, seed=8)), block=30)
    field.submit("ada2", models.fingerprint(models.renamed(ada)), block=40)
    field.submit("stranger", models.fingerprint(models.decoder(5)), block=50)
    tied = models.decoder(7)
    field.submit("tim", models.fingerprint(tied), block=60, extrinsic=4)
    field.submit("tom", models.fingerprint(models.noisy(tied, 0.01)), block=60, extrinsic=4)
    field.submit("late", models.fingerprint(models.decoder(9)), block=70)
    field.submit("early", models.fingerprint(models.noisy(models.decoder(9), 0.01)), block=5)
    field.verdicts.judge(field.commit("gone", block=80, state="parked", reason="not_found: the hub says 404"))
    field.commit("fresh", block=90)
    yield field
    engine.dispose()


def test_everybody_gets_the_verdict_that_is_true(played):
    seats = (*played.seats(), type(played.seats("silent")[0])(99, hotkey("silent")))
    stored = played.publisher().publish(NETUID, 8512345, seats)
    said = check(stored.envelope, Verdicts, expected=Expected(GENESIS, NETUID), trusted=[SIGNER.verifier]).predicate
    found = by_name(played, said)
    clear = [name for name, verdict in found.items() if verdict.status is Status.CLEAR]
    assert clear == ["ada", "cleo", "ada2", "stranger", "tim", "late", "early"]
    for name, code in (("eve", "copy.perturbed"), ("rex", "copy.identical")):
        assert (found[name].status, found[name].multiplier) == (Status.PENALISED, "0.0")
        assert found[name].reasons[0].code == code
        assert found[name].reasons[0].of.hotkey == hotkey("ada")
        assert found[name].reasons[0].of.revision == revision("ada")
        assert float(found[name].reasons[0].false_accusation_probability) <= 1e-6
    assert (found["tom"].status, found["tom"].multiplier) == (Status.HELD, "1.0")
    assert [reason.code for reason in found["tom"].reasons] == ["priority.tie"]
    for name, reason in (("gone", "not_found"), ("fresh", "pending")):
        assert (found[name].status, found[name].multiplier) == (Status.UNKNOWN, "1.0")
        assert [r.code for r in found[name].reasons] == [reason]
    silent = said.verdicts[-1]
    assert (silent.uid, silent.status, silent.multiplier) == (99, Status.UNKNOWN, "1.0")
    assert (silent.revision, silent.reasons[0].code) == (None, "no_commitment")


def test_parents_are_named(played):
    found = by_name(played, played.publisher().publish(NETUID, 1, played.seats()).verdicts())
    ada = found["ada"].content_root
    assert [(p.digest, p.relation, p.declared) for p in found["cleo"].parents] == [(ada, "derived", False)]
    assert [p.relation for p in found["ada"].parents] == ["derived"]
    assert [(p.digest, p.relation) for p in found["eve"].parents] == [(ada, "perturbed")]
    assert found["stranger"].parents == ()


def test_the_evidence_of_a_reason_recomputes_it(played):
    found = by_name(played, played.publisher().publish(NETUID, 1, played.seats()).verdicts())
    bundle = played.blobs.get(found["eve"].reasons[0].evidence)
    replayed = evidence.replay(bundle, where="evidence", checkpoints={})
    assert replayed.comparison.relation == "perturbed"
    assert replayed.comparison.candidate == found["eve"].content_root
    assert replayed.comparison.reference == found["ada"].content_root


def test_the_snapshot_is_in_the_log(played):
    stored = played.publisher().publish(NETUID, 1, played.seats())
    receipt = played.shelf.receipt(stored)
    proven = verify_receipt(receipt, log=played.log.key)
    assert proven.index == stored.leaf
    envelope = envelope_of(proven.leaf, stored.envelope, where="receipt")
    assert envelope.digest == stored.digest


def test_who_was_copied_before_anybody_knew_it_is_not_accused_and_the_copy_is_judged_again(played):
    """The copy became known first; when the original is known too, the copy is examined anew."""
    late = models.fingerprint(models.decoder(9))
    assert played.examine("late", late, block=70)
    again = played.verdicts.judge(played.names["late"])
    assert again.number == 2
    assert again.verdict.status is Status.PENALISED
    assert again.verdict.reasons[0].of.hotkey == hotkey("early")
