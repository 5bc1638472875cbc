"""The whole: verdicts, lineages, standing, alarms, and that a copy has nothing to gain."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forensics.client import Trust, verify
from forensics.client.core import Held
from forensics.client.core import reading as reading_of
from forensics.client.reading import Reading
from forensics.scoring.field import Field, Items, Submission
from forensics.scoring.report import document, render, why
from forensics.scoring.run import Scoring, Standing, score
from forensics.scoring.seats import seat
from tests.forensics.client.world import LIFE, NETUID, START, address, key, revision, signed, verdict, verdicts
from tests.forensics.scoring.fields import PLAIN, bernoulli, policy

NAMES = ("ada", "bob", "eve", "zoe")


def reading(*entries: object, later: timedelta = timedelta(0)) -> Reading:
    snapshot = verify(signed(verdicts(*entries)), Trust.of(key(), netuid=NETUID))  # type: ignore[arg-type]
    return reading_of(Held(snapshot), START + later, confirmed=True)


def field(*skills: float, seed: int = 1, questions: int = 300) -> Field:
    """Named models in commit order."""
    found = bernoulli(np.random.default_rng(seed), np.array(skills), width=3, questions=questions)
    named = [Submission(address(n), revision(n), 100 + i, 0) for i, n in enumerate(NAMES[: len(skills)])]
    return Field(tuple(named), found.environments)


def standings(scoring: Scoring) -> list[str]:
    return [str(row.standing) for row in scoring.rows]


def test_an_improver_takes_the_crown_and_a_copy_nothing():
    found = score(field(0.3, 0.6, 0.6), policy())
    assert standings(found) == ["dethroned", "crown", "held"]
    assert [row.weight for row in found.rows] == [0, 1, 0]
    assert "took the crown from" in why(found.rows[1], found)
    assert found.rows[2].against[0].other in (0, 1)


def test_a_penalty_is_multiplied_and_burned():
    judged = reading(verdict(0, "ada"), verdict(1, "bob", "0.25"), verdict(2, "eve"))
    found = score(field(0.3, 0.6, 0.6), policy(), judged)
    assert [row.weight for row in found.rows] == [0, 0.25, 0]
    assert seat(found).by_uid == {0: 0.75, 1: 0.25}
    assert "x 0.25 (penalised: copy.perturbed)" in why(found.rows[1], found)


def test_a_rejected_thief_that_came_first_does_not_hold_the_author():
    """Original work announced late: the thief's earlier commit must not make the author's model the copy."""
    thief_first = field(0.6, 0.6, 0.3)
    free = score(thief_first, policy())
    assert standings(free) == ["crown", "held", "held"]
    found = score(thief_first, policy(), reading(verdict(0, "ada", "0"), verdict(1, "bob"), verdict(2, "eve")))
    assert standings(found) == ["out", "crown", "held"]
    assert [row.weight for row in found.rows] == [0, 1, 0]


def test_zero_multiplier_is_zero_weight_under_every_rule():
    for rule in ("winner-takes-all", "decayed", "proportional"):
        for withheld in ("burn", "share"):
            judged = reading(*(verdict(i, name, "0") for i, name in enumerate(NAMES)))
            found = score(field(0.3, 0.5, 0.6), policy(rule=rule, withheld=withheld), judged)
            assert (sum(row.weight for row in found.rows), found.burned) == (0, 1)
            assert [alarm.code for alarm in found.alarms] == ["nobody_competes"]


def test_a_verdict_on_another_revision_is_no_verdict():
    judged = reading(verdict(0, "ada", "0", revision=revision("older")), verdict(1, "bob"))
    found = score(field(0.6, 0.3), policy(), judged)
    assert standings(found)[0] == "crown"
    assert not found.rows[0].judged.known
    assert "unknown revision" in found.rows[0].judged.why


def test_names_instead_of_addresses_have_no_verdict():
    plain = bernoulli(np.random.default_rng(1), np.array([0.5]), width=1, questions=5)
    (row,) = score(plain, policy(), reading()).rows
    assert (row.judged.multiplier, row.judged.why) == (1.0, "not an address, so there is no verdict")


def test_neutral_verdicts_are_said():
    expired = reading(later=LIFE)
    found = score(field(0.6, 0.3), policy(), expired)
    assert any("neutral" in note for note in found.notes)
    assert [row.judged.multiplier for row in found.rows] == [1, 1]


def test_lineage_cluster_content_and_copies_share_alpha_and_strangers_do_not():
    four = field(0.5, 0.5, 0.5, 0.5)

    def numbers(*entries: object, **changes: object) -> list[int]:
        rows = score(four, policy(**changes), reading(*entries)).rows
        return [row.attempt.number for row in rows if row.attempt is not None]

    alone = [verdict(i, name) for i, name in enumerate(NAMES)]
    assert numbers(*alone) == [0, 1, 1, 1]
    assert numbers() == [0, 1, 1]  # eve is at 0 in the world's snapshot; zoe is unknown
    clustered = [verdict(i, name, cluster="ring") for i, name in enumerate(NAMES)]
    assert numbers(*clustered) == [0, 1, 2, 3]
    same = [verdict(i, name, content_root="sha256:" + "7" * 64) for i, name in enumerate(NAMES)]
    assert numbers(*same) == [0, 1, 2, 3]
    assert numbers(verdict(0, "nobody")) == [0, 1, 2, 3]
    assert numbers(verdict(0, "nobody"), unjudged="apart") == [0, 1, 1, 1]


def test_a_parent_that_competes_connects_and_a_common_base_does_not():
    from attest.predicates.verdict import ParentModel

    def derived(digest: str) -> ParentModel:
        return ParentModel(digest=digest, weight="1.0", relation="derived", declared=True)

    ada = verdict(0, "ada")
    assert ada.content_root is not None
    base = "sha256:" + "b" * 64
    children = [
        verdict(1, "bob", parents=(derived(ada.content_root), derived(base))),
        verdict(2, "eve", parents=(derived(base),)),
        verdict(3, "zoe", parents=(derived(ada.content_root),)),
    ]
    rows = score(field(0.5, 0.5, 0.5, 0.5), policy(), reading(ada, *children)).rows
    assert [row.attempt.number for row in rows if row.attempt is not None] == [0, 1, 1, 2]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_a_row_order_and_names_that_keep_the_commit_order_change_nothing(seed, shift):
    """Hotkeys decide ties and nothing else."""
    rng = np.random.default_rng(seed)
    plain = bernoulli(rng, rng.uniform(0.3, 0.8, size=8), width=2, questions=60)
    renamed = tuple(
        Submission(f"other-{(i + shift) % 8}", f"{i + shift:040x}", s.block + shift, s.extrinsic)
        for i, s in enumerate(plain.submissions)
    )
    one = score(plain, policy(rule="decayed"))
    other = score(Field(renamed, plain.environments), policy(rule="decayed"))
    assert [row.weight for row in one.rows] == [row.weight for row in other.rows]
    assert standings(one) == standings(other)


@pytest.mark.parametrize("rule", ["winner-takes-all", "decayed", "proportional"])
def test_copies_with_samples_of_their_own_gain_nothing(rule):
    """An operator owns the runner-up and adds copies of the champion, and of its own model: paid at most by chance.

    100 rounds at alpha .05: at most 5 are expected; 13 has a probability below .1%.
    """
    won = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        plain = bernoulli(rng, np.array([0.6] + [0.5] + [0.6] * 6 + [0.5] * 3), width=2, questions=80)
        found = score(plain, policy(rule=rule, alpha=0.05))
        won += any(row.weight > 0 for row in found.rows[1:])
    assert won < 13


def test_valid_scores_that_lead_to_nothing_raise_an_alarm():
    empty = Items("E", np.array([[np.nan], [1.0]]), PLAIN)
    two = Field(field(0.5, 0.5).submissions, (empty,))
    found = score(two, policy())
    assert [alarm.code for alarm in found.alarms] == ["no_scores"]
    assert standings(found) == ["out", "crown"]
    held = reading(verdict(0, "ada"), verdict(1, "bob", "0.000000000000000001"))
    assert score(two, policy(), held).rows[1].weight > 0


def test_weights_that_cannot_be_set_raise_an_alarm():
    judged = reading(verdict(0, "ada"))
    found = score(field(0.3, 0.6), policy(), judged)
    seated = seat(found)
    assert (seated.by_uid, seated.by_hotkey) == ({0: 1.0}, {address("bob"): 1.0})
    assert [alarm.code for alarm in seated.alarms] == ["weight_lost"]
    tiny = reading(verdict(5, "ada"), verdict(6, "bob", "0.000001"))
    codes = [alarm.code for alarm in seat(score(field(0.3, 0.6), policy(), tiny)).alarms]
    assert codes == ["rounds_to_zero"]


def test_seats_of_the_newer_source_count():
    known = field(0.6)
    seated_elsewhere = Field((Submission(address("ada"), revision("ada"), 100, 0, uid=9),), known.environments)
    found = score(seated_elsewhere, policy(), reading(verdict(4, "ada")))
    assert seat(found).seats == {address("ada"): 4}
    assert seat(found, block=1).seats == {address("ada"): 4}
    assert seat(found, block=9_000_000).seats == {address("ada"): 9}
    assert "uid 9 in the scores, 4 in the verdicts" in seat(found).notes[0]


def test_one_hotkey_with_two_revisions_is_one_lineage_and_one_weight():
    two = field(0.3, 0.7)
    first, second = two.submissions
    same = Field((first, Submission(first.hotkey, second.revision, second.block, 0)), two.environments)
    found = score(same, policy(unjudged="apart", rule="decayed"))
    assert [row.attempt.number for row in found.rows if row.attempt is not None] == [0, 1]
    assert seat(found).by_hotkey == {first.hotkey: 1.0}


def test_every_model_is_explained_in_both_forms():
    found = score(field(0.3, 0.6, 0.6, 0.45), policy(), reading(verdict(0, "ada"), verdict(1, "bob", "0.5")))
    seated = seat(found)
    said = document(found, seated)
    assert [model["standing"] for model in said["models"]] == standings(found)
    assert all(model["why"] for model in said["models"])
    held = said["models"][2]["against"][0]
    assert held["role"] == "held by"
    assert {"difference", "margin", "tolerance", "result"} <= set(held["environments"]["E0"])
    text = "\n".join(str(line) for line in render(found, seated))
    assert "burned 0.5000" in text
    assert f"policy test v7 {found.policy.digest[:19]}" in text
    assert said["config"]["digest"] == found.policy.digest


def test_out_of_the_competition_is_explained_too():
    found = score(field(0.3, 0.6), policy(), reading(verdict(0, "ada", "0"), verdict(1, "bob")))
    assert found.rows[0].standing is Standing.OUT
    assert why(found.rows[0], found) == "does not compete: verdict penalised: copy.perturbed"
