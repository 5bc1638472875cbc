from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fingerprint.checkpoint import open_checkpoint
from fingerprint.compare import Depth, Source, load_calibration
from fingerprint.scan import scan
from forensics import bundle, evidence
from forensics.errors import EvidenceError, ReplayMismatch, UsageError
from tests.forensics import models


@pytest.fixture(scope="module")
def sketch_inputs(ada, bob, noisy_ada):
    return evidence.Inputs(Source(noisy_ada), Source(ada), load_calibration(), known=(Source(bob),))


@pytest.fixture(scope="module")
def sketched(sketch_inputs) -> bytes:
    return evidence.make(sketch_inputs.compare(Depth.SKETCH), sketch_inputs)


def replay(data: bytes, **options):
    return evidence.replay(data, where="e.zip", checkpoints=options.pop("checkpoints", {}), **options)


def changed(data: bytes, name: str, change) -> bytes:
    """The bundle with one member changed and a manifest that agrees, as a forger would make it."""
    members = bundle.unpack(data, schema=evidence.SCHEMA, where="e.zip")
    members[name] = change(members[name])
    return bundle.pack(evidence.SCHEMA, members)


def edited(**fields):
    return lambda raw: bundle.canonical(json.loads(raw) | fields)


def test_the_same_comparison_gives_the_same_bundle(sketch_inputs, sketched):
    assert evidence.make(sketch_inputs.compare(Depth.SKETCH), sketch_inputs) == sketched


def test_replay_gives_the_recorded_bytes(sketched):
    found = replay(sketched)
    assert found.comparison.copy
    assert found.shipped_calibration
    assert found.versions == evidence.versions()


def test_a_changed_result_is_named(sketched):
    with pytest.raises(ReplayMismatch, match=r"differs in copy, relation"):
        replay(changed(sketched, "result.json", edited(relation="independent", copy=False)))


def test_a_changed_threshold_is_named_as_calibration(sketched):
    def laxer(raw):
        document = json.loads(raw)
        name = sorted(document["tails"])[0]
        document["tails"][name]["mean"] += 1.0
        return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()

    with pytest.raises(ReplayMismatch, match="calibration"):
        replay(changed(sketched, "calibration.json", laxer))


def test_a_swapped_fingerprint_is_noticed(sketched, bob):
    from fingerprint.file import dumps

    with pytest.raises(ReplayMismatch, match="reference"):
        replay(changed(sketched, "reference.fingerprint", lambda _: dumps(bob)))


def test_another_version_is_named(sketched):
    forged = changed(sketched, "request.json", edited(versions={**evidence.versions(), "torch": "1.0"}))
    forged = changed(forged, "result.json", edited(confidence=0.5))
    with pytest.raises(ReplayMismatch, match="torch"):
        replay(forged)


def test_another_algorithm_is_named(sketched):
    with pytest.raises(ReplayMismatch, match="another algorithm"):
        replay(changed(sketched, "result.json", edited(algorithm="compare@0/none")))


@pytest.mark.parametrize(
    ("member", "change"),
    [
        ("request.json", edited(depth="deep")),
        ("request.json", edited(known=7)),
        ("request.json", edited(known=True)),
        ("request.json", edited(known=-1)),
        ("request.json", edited(weights=["../../etc/passwd"])),
        ("request.json", edited(weights=[["candidate"]])),
        ("request.json", edited(more=1)),
        ("request.json", lambda _: b"[]"),
        ("request.json", lambda _: b"\xff"),
        ("result.json", lambda _: b"\xff\xfe"),
        ("calibration.json", lambda _: b"{}"),
        ("candidate.fingerprint", lambda raw: raw[:-1]),
        ("candidate.fingerprint", lambda _: b""),
        ("unknown.bin", lambda _: b"payload"),
    ],
)
def test_a_forged_bundle_is_bad_input(sketched, member, change):
    members = bundle.unpack(sketched, schema=evidence.SCHEMA, where="e.zip")
    members[member] = change(members.get(member, b""))
    with pytest.raises((EvidenceError, ReplayMismatch, evidence.FingerprintError)) as caught:
        replay(bundle.pack(evidence.SCHEMA, members))
    assert "e.zip" in str(caught.value)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("weights")
    return {
        "ada": models.write(models.decoder(1), root / "ada"),
        "noisy": models.write(models.noisy(models.decoder(1), 0.01), root / "noisy"),
        "bob": models.write(models.decoder(2), root / "bob"),
    }


@pytest.fixture(scope="module")
def full(folders) -> bytes:
    with open_checkpoint(folders["noisy"]) as one, open_checkpoint(folders["ada"]) as two:
        inputs = evidence.Inputs(Source(scan(one), one), Source(scan(two), two), load_calibration())
        return evidence.make(inputs.compare(Depth.FULL), inputs)


def test_full_depth_needs_the_weights_and_says_which(full, folders):
    with pytest.raises(UsageError, match="--candidate PATH --reference PATH"):
        replay(full)
    with open_checkpoint(folders["noisy"]) as one, pytest.raises(UsageError, match="--reference PATH"):
        replay(full, checkpoints={"candidate": one})


def test_full_depth_with_its_weights_gives_the_recorded_bytes(full, folders):
    with open_checkpoint(folders["noisy"]) as one, open_checkpoint(folders["ada"]) as two:
        assert replay(full, checkpoints={"candidate": one, "reference": two}).comparison.depth is Depth.FULL


def test_other_weights_are_refused_by_content_root(full, folders, bob):
    with (
        open_checkpoint(folders["noisy"]) as one,
        open_checkpoint(folders["bob"]) as two,
        pytest.raises(EvidenceError, match="not the weights") as caught,
    ):
        replay(full, checkpoints={"candidate": one, "reference": two})
    assert bob.content_root in str(caught.value)


def test_a_forged_fingerprint_with_the_right_root_does_not_survive_its_weights(full, folders, ada):
    from fingerprint.file import dumps

    slots = {slot: replace(sketch, linear=sketch.linear * 1.5) for slot, sketch in ada.slots.items()}
    forged = changed(full, "reference.fingerprint", lambda _: dumps(replace(ada, slots=slots)))
    with (
        open_checkpoint(folders["noisy"]) as one,
        open_checkpoint(folders["ada"]) as two,
        pytest.raises(EvidenceError, match="not the one its weights give"),
    ):
        replay(forged, checkpoints={"candidate": one, "reference": two})
