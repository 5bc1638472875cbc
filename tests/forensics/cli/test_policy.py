"""``forensics policy`` as it is typed."""

from __future__ import annotations

import pytest

from forensics.policy import default
from forensics.policy.file import DEFAULT
from forensics.settings import load
from forensics.store.blobs import Blobs
from forensics.store.engine import connect
from forensics.store.migrate import ensure
from tests.forensics.attesting import GENESIS, NETUID
from tests.forensics.verdicts.field import Field, hotkey, revision
from tests.forensics.verdicts.test_judge import finding


@pytest.fixture
def changed(tmp_path):
    """A policy file made from the shipped one."""

    def changed(name: str, *pairs: tuple[str, str]):
        text = DEFAULT.read_text()
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new, 1)
        path = tmp_path / name
        path.write_text(text)
        return path

    return changed


@pytest.fixture
def history(own_home, tmp_path) -> Field:
    """A home in which a merge, a sure copy, an unsure one and a parked submission were judged."""
    engine = connect(load().database_url)
    ensure(engine)
    field = Field(engine, Blobs(load().blobs_url), tmp_path / "cache")
    merge = finding("lineage.merged", 1.0)
    found = {"merger": merge, "sure": finding("copy.perturbed", 1e-9), "unsure": finding("copy.perturbed", 1e-5)}
    for block, (name, one) in enumerate(found.items()):
        entry = field.commit(name, block=block, state="judging")
        field.verdicts.record_findings(entry, [one])
        field.verdicts.judge(entry)
    field.verdicts.judge(field.commit("parked", block=9, state="parked", reason="gated: no access"))
    yield field
    engine.dispose()


def test_show_prints_the_policy_in_force_and_its_digest(run, json_of, changed, monkeypatch):
    code, out, _ = run("policy", "show")
    assert code == 0
    assert default().digest in out
    assert "findings.copy.* = penalised" in out
    assert json_of("policy", "show") == {"digest": default().digest, "policy": default().document()}
    monkeypatch.setenv("FORENSICS_POLICY", str(changed("mine.toml", ('name = "default"', 'name = "mine"'))))
    assert json_of("policy", "show")["policy"]["name"] == "mine"
    assert json_of("policy", "show", "default")["policy"]["name"] == "default"


def test_check_takes_what_is_valid_and_names_what_is_not(run, json_of, changed):
    good = changed("good.toml", ("version = 1\n", "version = 2\n"))
    assert json_of("policy", "check", good)["version"] == 2
    loose = changed("loose.toml", ('decisive = "1e-6"', 'decisive = "0.01"'))
    code, out, err = run("policy", "check", loose)
    assert (code, out) == (3, "")
    assert "loose.toml: detectors.copy@1.decisive" in err
    assert "rule 1 cannot be loosened" in err
    assert json_of("policy", "check", loose, code=3)["error"]["where"].endswith("detectors.copy@1.decisive")
    assert run("policy", "check", "absent.toml")[0] == 4


def test_diff_says_what_would_change_for_whom(run, json_of, changed, history):
    strict = changed(
        "strict.toml",
        ('"lineage.merged" = "watch"', '"lineage.merged" = "held"'),
        ('decisive = "1e-6"', 'decisive = "1e-12"'),
    )
    found = json_of("policy", "diff", "default", strict, code=1)
    assert (found["judged"], found["changed"]) == (4, 2)
    assert found["keys"] == {
        "detectors.copy@1.decisive": {"old": "1e-6", "new": "1e-12"},
        "findings.lineage.merged": {"old": "watch", "new": "held"},
    }
    merger, sure = found["changes"]
    assert (merger["hotkey"], merger["revision"], merger["newest"]) == (hotkey("merger"), revision("merger"), True)
    assert (merger["before"]["status"], merger["after"]["status"]) == ("watch", "held")
    assert (sure["before"]["multiplier"], sure["after"]["multiplier"]) == ("0.0", "1.0")
    assert sure["after"]["reasons"] == ["copy.perturbed"]
    code, out, _ = run("policy", "diff", "default", strict)
    assert code == 1
    assert "findings.lineage.merged: watch -> held" in out
    assert "2 of 4 submissions would be judged otherwise" in out


def test_diff_of_equal_policies_and_of_another_subnet_changes_nothing(json_of, changed, history):
    renamed = changed("renamed.toml", ('name = "default"', 'name = "other"'))
    assert json_of("policy", "diff", "default", renamed)["changed"] == 0
    strict = changed("strict.toml", ('"lineage.merged" = "watch"', '"lineage.merged" = "held"'))
    assert json_of("policy", "diff", "default", strict, "--netuid", NETUID + 1)["judged"] == 0
    assert json_of("policy", "diff", "default", strict, "--netuid", NETUID, code=1)["changed"] == 1


def test_diff_writes_nothing(json_of, changed, history):
    before = history.verdicts.current(GENESIS, NETUID)
    json_of("policy", "diff", "default", changed("m.toml", ('mode = "on"', 'mode = "shadow"')), code=1)
    assert history.verdicts.current(GENESIS, NETUID) == before
