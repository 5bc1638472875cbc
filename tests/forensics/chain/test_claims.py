"""What each hotkey claims: the reported cases of design 4-detectors, section 5, by name."""

from __future__ import annotations

import pytest

from forensics.chain.claims import Standing, claims
from forensics.chain.grammar import AFFINE, Rules
from forensics.chain.observed import Commit, Kind, Neuron, Swap

from .subnets import model, who

ANN, BEN = who("ann"), who("ben")
SWAP = Swap(ANN, BEN, 50, 2)


def neuron(hotkey=ANN, registrant=None) -> Neuron:
    return Neuron(0, hotkey, who("cold"), 10, registrant=registrant or hotkey)


def commit(hotkey=ANN, block=20, data=None, kind=Kind.PLAIN, extrinsic=1) -> Commit:
    return Commit(hotkey, block, extrinsic, model(f"m-{hotkey}") if data is None else data, kind)


def one(neurons, commits=(), swaps=(), rules=AFFINE):
    (claim,) = claims([neurons], commits, swaps, rules)
    return claim


def test_a_hotkey_without_a_commitment_is_shown():
    claim = one(neuron())
    assert (claim.standing, claim.commit, claim.reason) == (Standing.NONE, None, "")


def test_a_good_commitment_names_its_model():
    claim = one(neuron(), [commit()])
    assert (claim.standing, claim.named.repo) == (Standing.NAMED, f"org/m-{ANN}")


def test_two_models_break_the_rule_of_one_and_the_same_one_twice_does_not():
    second = commit(block=30, data=model(f"other-{ANN}"))
    assert one(neuron(), [commit(), second]).reason == "multiple_commits:count=2"
    assert one(neuron(), [commit(), commit(block=30)]).standing is Standing.NAMED
    assert one(neuron(), [second, commit()], rules=Rules()).named.repo == f"org/other-{ANN}"


def test_a_repository_that_does_not_end_in_the_hotkey_breaks_the_rule():
    claim = one(neuron(), [commit(data=model("m"))])
    assert (claim.standing, claim.reason) == (Standing.BROKEN, "repo_name_without_hotkey:repo=org/m")
    assert claim.named is not None


@pytest.mark.parametrize("registrant", [ANN, None])
def test_a_swapped_hotkey_that_commits_is_flagged_whoever_remembers_the_registration(registrant):
    swapped = Neuron(0, BEN, who("cold"), 10, registrant=registrant)
    claim = one(swapped, [commit(BEN, 60)], [SWAP])
    assert claim.reason == f"hotkey_swapped_no_registration:registrant={ANN}"


def test_a_rotation_without_a_new_commitment_keeps_the_old_claim():
    claim = one(neuron(BEN, ANN), [commit(ANN)], [SWAP])
    assert (claim.standing, claim.hotkey, claim.commit.hotkey) == (Standing.NAMED, BEN, ANN)


def test_a_hotkey_that_is_still_there_leaves_nothing_to_its_successor():
    found = claims([neuron(), Neuron(1, BEN, who("c"), 10)], [commit(ANN)], [SWAP], AFFINE)
    assert [claim.standing for claim in found] == [Standing.NAMED, Standing.NONE]


def test_keys_swapped_in_a_circle_end():
    circle = [SWAP, Swap(BEN, ANN, 60, 1)]
    assert one(neuron(who("x")), [], [*circle, Swap(ANN, who("x"), 70, 1)]).standing is Standing.NONE


def test_a_sealed_commitment_waits_and_does_not_hide_what_is_open():
    sealed = commit(block=30, data=b"", kind=Kind.SEALED)
    assert one(neuron(), [sealed]).standing is Standing.SEALED
    assert one(neuron(), [commit(), sealed]).standing is Standing.NAMED
    digest = commit(block=30, data=b"sha256:" + b"0a" * 32)
    assert one(neuron(), [digest]).standing is Standing.SEALED
    assert one(neuron(), [commit(), digest]).standing is Standing.NAMED


def test_a_malformed_commitment_is_a_state():
    claim = one(neuron(), [commit(data=b"\xff" * 9)])
    assert (claim.standing, claim.reason) == (Standing.MALFORMED, "malformed_commitment:not_text")


def test_every_neuron_has_a_claim_in_order():
    neurons = [Neuron(uid, who(str(uid)), "", 1) for uid in range(20)]
    assert [claim.uid for claim in claims(neurons, [], [], AFFINE)] == list(range(20))
