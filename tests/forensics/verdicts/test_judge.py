"""The judge alone: what each kind of evidence may cost, whatever a policy says."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.predicates.decision import Outcome
from attest.predicates.verdict import Status
from detectors.evidence import Exculpation, Finding, Kind, Party
from forensics.policy import Detector, Mode, Policy, default
from forensics.policy.policy import Keeps, Operators, Snapshots
from forensics.verdicts import Decision, Subject, judge
from forensics.verdicts.verdict import fraction, read
from tests.forensics.attesting import GENESIS
from tests.forensics.verdicts.field import hotkey

ON = Detector(Mode.ON, decisive="1e-6", counts="1e-3")
POLICY = replace(
    default(),
    detectors={"copy@1": ON, "commit@1": ON, "sybil@1": ON, "overfit@1": ON},
    findings=dict(default().findings) | {"sybil.*": Status.PENALISED, "overfit.*": Status.PENALISED},
)
OTHER = f"{hotkey('rival')}@{'b' * 40}"


def digest(text: str) -> str:
    return "sha256:" + sha256(text.encode()).hexdigest()


def subject(**more) -> Subject:
    told = {"examined": ("copy@1",), "content_root": digest("content")} | more
    return Subject(digest("entry"), GENESIS, 120, hotkey("miner"), "a" * 40, 100, 2, **told)


def parent(name: str, weight: float) -> Finding:
    merged = finding("lineage.merged", 1.0, weight=weight, declared=1, relation="merged")
    return replace(merged, object=Party(Kind.MODEL, digest(name)))


def finding(code: str, p: float, *excuses: str, detector: str = "", **measured) -> Finding:
    return Finding(
        detector=detector or f"{code.partition('.')[0].replace('lineage', 'copy').replace('priority', 'copy')}@1",
        code=code,
        subject=Party(Kind.SUBMISSION, f"{hotkey('miner')}@{'a' * 40}"),
        object=Party(Kind.SUBMISSION, OTHER),
        log10_likelihood_ratio=3.0,
        p_value=p,
        null="none",
        evidence=digest(f"{code} {p}"),
        measured={"confidence": 0.999, "reference": digest("reference"), **measured},
        exculpatory=tuple(Exculpation(word, word) for word in excuses),
    )


def outcome(*findings: Finding, policy: Policy = POLICY, decisions=(), **more) -> tuple[str, str]:
    verdict = judge(policy, subject(**more), findings, decisions=decisions)
    return str(verdict.status), verdict.multiplier


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], ("clear", "1.0")),
        ([finding("copy.perturbed", 1e-9)], ("penalised", "0.0")),
        ([finding("copy.equivalent", 1e-6)], ("penalised", "0.0")),
        ([finding("copy.perturbed", 1.1e-6)], ("held", "1.0")),
        ([finding("copy.perturbed", 1e-3)], ("held", "1.0")),
        ([finding("copy.perturbed", 0.01)], ("watch", "1.0")),
        ([finding("copy.identical", 1.0, proof="equal_content")], ("penalised", "0.0")),
        ([finding("copy.perturbed", 1.0, proof="equal_content")], ("watch", "1.0")),
        ([finding("copy.identical", 1.0, proof="because")], ("watch", "1.0")),
        ([finding("lineage.derived", 1e-12)], ("clear", "1.0")),
        ([finding("lineage.merged", 1e-12)], ("watch", "1.0")),
        ([finding("priority.tie", 1.0)], ("held", "1.0")),
        ([finding("nobody.knows", 1e-12, detector="copy@1")], ("watch", "1.0")),
        ([finding("sybil.funding", 1e-12)], ("held", "1.0")),
        ([finding("sybil.funding", 1e-12), finding("sybil.timing", 1e-12)], ("held", "1.0")),
        ([finding("sybil.funding", 1e-4), finding("overfit.exposed", 1e-4)], ("penalised", "0.5")),
        ([finding("sybil.funding", 1e-4), finding("overfit.exposed", 0.01)], ("held", "1.0")),
        ([finding("sybil.funding", 1e-4), finding("copy.perturbed", 1e-4)], ("penalised", "0.5")),
        ([finding("sybil.funding", 1e-4), finding("copy.perturbed", 1e-9)], ("penalised", "0.0")),
        ([finding("copy.perturbed", 1e-4), finding("copy.equivalent", 1e-4)], ("held", "1.0")),
        ([finding("commit.invalid", 1e-300, proof="commitment")], ("held", "1.0")),
    ],
)
def test_what_evidence_costs(found, expected):
    assert outcome(*found) == expected


@pytest.mark.parametrize("excuse", ["reference_later", "own_model", "tie", "no_order", "reference_withdrawn"])
@pytest.mark.parametrize("proof", ["equal_content", ""])
def test_a_copy_with_an_excuse_that_spares_accuses_nobody(excuse, proof):
    assert outcome(finding("copy.identical", 1e-300, excuse, proof=proof)) == ("watch", "1.0")


def test_a_declared_parent_or_a_base_does_not_excuse_a_copy_but_the_policy_may():
    assert outcome(finding("copy.identical", 1e-9, "declared_parent")) == ("penalised", "0.0")
    of_base = finding("copy.identical", 1e-9, "public_base")
    assert outcome(of_base) == ("penalised", "0.0")
    assert outcome(of_base, policy=replace(POLICY, public_base=Status.WATCH)) == ("watch", "1.0")


def test_a_detector_in_shadow_changes_nothing_but_is_on_record():
    quiet = replace(POLICY, detectors={"copy@1": replace(ON, mode=Mode.SHADOW)})
    verdict = judge(quiet, subject(), [finding("copy.perturbed", 1e-9), finding("sybil.funding", 1e-9)])
    assert (verdict.status, verdict.multiplier, verdict.reasons) == (Status.CLEAR, "1.0", ())
    assert verdict.shadow == ("copy@1 copy.perturbed penalised", "sybil@1 sybil.funding held")


def test_a_detector_in_shadow_corroborates_nothing():
    one_quiet = replace(POLICY, detectors={**POLICY.detectors, "overfit@1": replace(ON, mode=Mode.SHADOW)})
    found = [finding("sybil.funding", 1e-4), finding("overfit.exposed", 1e-4)]
    assert outcome(*found, policy=one_quiet) == ("held", "1.0")


@pytest.mark.parametrize("reason", ["pending", "not_found", "unsupported_checkpoint", None])
def test_what_was_not_looked_at_is_unknown_and_costs_nothing(reason):
    verdict = judge(POLICY, subject(examined=(), unknown=reason), [])
    assert (verdict.status, verdict.multiplier) == (Status.UNKNOWN, "1.0")
    assert verdict.reasons[0].code == (reason or "not_judged")
    assert outcome(finding("sybil.x", 1e-9), finding("overfit.x", 1e-9), examined=()) == ("unknown", "1.0")


def test_a_broken_commitment_is_rejected_only_where_the_policy_turns_that_on():
    broken = finding("commit.invalid", 1e-300, proof="commitment")
    assert outcome(broken, examined=("commit@1",), unknown="invalid_commitment") == ("unknown", "1.0")
    strict = replace(POLICY, findings=dict(POLICY.findings) | {"commit.*": Status.REJECTED})
    assert outcome(broken, policy=strict, examined=("commit@1",)) == ("rejected", "0.0")
    unproven = finding("commit.invalid", 1e-300)
    assert outcome(unproven, policy=strict, examined=("commit@1",)) == ("unknown", "1.0")
    assert outcome(unproven, policy=strict) == ("held", "1.0")


def decision(outcome: Outcome, **more) -> Decision:
    return Decision(digest(f"decision {outcome}"), "case:1", outcome, **more)


def test_a_decision_stands_above_the_machine():
    copy = finding("copy.perturbed", 1e-9)
    assert outcome(copy, decisions=[decision(Outcome.UPHELD)]) == ("penalised", "0.0")
    assert outcome(copy, decisions=[decision(Outcome.OVERTURNED)]) == ("clear", "1.0")
    assert outcome(copy, decisions=[decision(Outcome.AMENDED, multiplier="0.25")]) == ("penalised", "0.25")
    lasting = judge(POLICY, subject(), [copy], decisions=[decision(Outcome.AMENDED, multiplier="0.0", permanent=True)])
    assert lasting.permanent
    assert lasting.case == "case:1"
    assert [reason.code for reason in lasting.reasons] == ["decision.amended", "copy.perturbed"]


def test_an_overturned_accusation_does_not_shield_from_another():
    one, other = finding("copy.perturbed", 1e-9), finding("copy.perturbed", 1e-10)
    cleared = decision(Outcome.OVERTURNED, evidence=(one.evidence,))
    assert outcome(one, decisions=[cleared]) == ("clear", "1.0")
    assert outcome(one, other, decisions=[cleared]) == ("penalised", "0.0")


def test_a_reason_says_of_whom_how_sure_and_on_what_evidence():
    copy = finding("copy.perturbed", 1e-9, confidence=0.99999999999)
    (reason,) = judge(POLICY, subject(), [copy]).reasons
    assert (reason.of.hotkey, reason.of.revision) == (hotkey("rival"), "b" * 40)
    assert (reason.confidence, reason.false_accusation_probability) == ("1.0", "1e-9")
    assert reason.evidence == copy.evidence


def test_a_verdict_is_read_as_it_was_written():
    found = [finding("copy.perturbed", 1e-9), parent("one", 0.6), parent("two", 0.4)]
    verdict = judge(POLICY, subject(cluster="c1"), found, decisions=[decision(Outcome.UPHELD)])
    assert read(verdict.to_bytes(), where="verdict") == verdict
    assert [(p.digest, p.weight) for p in verdict.parents][1:] == [(digest("one"), "0.6"), (digest("two"), "0.4")]


CODES = ["copy.identical", "copy.perturbed", "lineage.merged", "priority.tie", "sybil.funding", "overfit.exposed",
         "commit.invalid", "decoy.served", "operator.further"]  # fmt: skip
EXCUSES = ["tie", "own_model", "reference_later", "public_base", "declared_parent"]
findings = st.lists(
    st.builds(
        lambda code, p, excuse, proof: finding(code, p, *excuse, **({"proof": proof} if proof else {})),
        st.sampled_from(CODES),
        st.sampled_from([1e-300, 1e-9, 1e-6, 1e-5, 1e-3, 0.04, 1.0]),
        st.lists(st.sampled_from(EXCUSES), max_size=2),
        st.sampled_from(["", "equal_content", "commitment", "same_coldkey", "trust me"]),
    ),
    max_size=5,
)
fractions = st.sampled_from(["0.0", "0.05", "0.5", "1.0"])
wild = st.builds(
    Policy,
    name=st.just("wild"),
    version=st.just(1),
    detectors=st.dictionaries(
        st.sampled_from([f"{f}@1" for f in ("copy", "commit", "sybil", "overfit", "decoy", "operator")]),
        st.builds(
            Detector, st.sampled_from(Mode), st.sampled_from(["0.5", "1e-6", "0"]), st.sampled_from(["1", "1e-3"])
        ),
    ),
    findings=st.dictionaries(
        st.sampled_from([*CODES, "copy.*", "lineage.*", "priority.*", "sybil.*"]), st.sampled_from(Status)
    ).map(lambda found: {code: status for code, status in found.items() if status is not Status.UNKNOWN}),
    public_base=st.sampled_from([Status.WATCH, Status.PENALISED]),
    multipliers=st.fixed_dictionaries({"penalised": fractions, "graded": fractions, "rejected": fractions}),
    operators=st.just(Operators(0, Keeps.EARLIEST)),
    snapshots=st.just(Snapshots(100, 10)),
)


@given(wild, findings)
def test_no_policy_however_made_gets_around_the_hard_rules(policy, found):
    verdict = judge(policy, subject(), found)
    multiplier = float(verdict.multiplier)
    on = [f for f in found if policy.detector(f.detector).mode is Mode.ON]
    spared = {"tie", "own_model", "reference_later"}
    accusing = [
        f for f in on if f.family not in ("lineage", "priority") and not spared & {e.code for e in f.exculpatory}
    ]
    proven = [
        f
        for f in accusing
        if (f.code, f.measured.get("proof")) == ("copy.identical", "equal_content")
        or (f.family, f.measured.get("proof")) in (("commit", "commitment"), ("operator", "same_coldkey"))
        or (f.family == "copy" and f.p_value <= 1e-6)
    ]
    families = {{"copy": "files", "commit": "files"}.get(f.family, f.family) for f in accusing if f.p_value <= 1e-3}
    if multiplier < 0.1:
        assert proven
    if multiplier < 1:
        assert proven or len(families) >= 2
    if verdict.status is Status.REJECTED:
        assert {f.family for f in proven} & {"commit", "operator"}
    if verdict.status not in (Status.PENALISED, Status.REJECTED):
        assert verdict.multiplier == "1.0"


@given(wild, findings, st.randoms())
def test_the_same_inputs_give_the_same_bytes_in_any_order(policy, found, random):
    first = judge(policy, subject(), found)
    shuffled = list(found)
    random.shuffle(shuffled)
    again = judge(policy, subject(), [Finding.read(f.document()) for f in shuffled + shuffled[:1]])
    assert again.to_bytes() == first.to_bytes()


@given(st.floats(0, 1))
def test_a_fraction_is_never_rounded_up(value):
    text = fraction(value)
    assert "e" not in text
    assert float(text) <= value + 1e-11
    assert abs(float(text) - value) <= 1.1e-9
    assert (text == "1.0") == (value == 1)
