"""Statements: written and read the same, nothing missing, nothing extra, and as the published schemas say."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest import canonical
from attest import envelope as dsse
from attest.errors import AttestError, MalformedInput, UnsupportedInput
from attest.keys import ss58
from attest.schemas import published
from attest.statement import NAMESPACE, PREDICATES, Statement, Subject, parse
from tests.attest.material import MINER, every_statement, hotkey, ownership, snapshot

EVERY = every_statement()
SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def schema_of(statement: Statement) -> dict[str, Any]:
    name = statement.predicate_type.removeprefix(NAMESPACE).replace("/", "-")
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return loaded


VALIDATORS = {name: jsonschema.Draft202012Validator(schema_of(statement)) for name, (statement, _) in EVERY.items()}


def members_of(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(EVERY[name][0].payload())
    return loaded


def test_there_is_an_example_of_every_predicate() -> None:
    assert {statement.predicate_type for statement, _ in EVERY.values()} == set(PREDICATES)


@pytest.mark.parametrize("name", EVERY)
def test_statements_are_read_back(name: str) -> None:
    statement, _ = EVERY[name]
    again = parse(statement.payload())
    assert again == statement
    assert again.digest == statement.digest == dsse.sign(statement.payload(), [MINER]).digest


@pytest.mark.parametrize("name", EVERY)
def test_the_published_schema_accepts_the_example(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(EVERY[name][0]))
    VALIDATORS[name].validate(members_of(name))


def test_published_schemas_are_current() -> None:
    """Ours are there; whether others lie beside them that nobody publishes, the check of the docs says."""
    there = {path.name: path.read_bytes() for path in SCHEMAS.glob("*.schema.json")}
    assert {name: there.get(name) for name in published()} == published(), "run `make docs`"


def test_the_check_of_the_docs_passes() -> None:
    script = SCHEMAS / "generate.py"
    ran = subprocess.run([sys.executable, script, "--check"], env={"PYTHONPATH": str(SCHEMAS.parents[1])}, check=False)
    assert ran.returncode == 0


def test_the_envelope_schema_accepts_an_envelope() -> None:
    schema = json.loads((SCHEMAS / "envelope.schema.json").read_text())
    jsonschema.validate(json.loads(dsse.sign(b"{}", [MINER]).to_json()), schema)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, member in inside for deeper in _paths(member, (*path, key)))]


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


@pytest.mark.parametrize("name", EVERY)
def test_missing_and_unknown_members_are_refused_at_every_depth(name: str) -> None:
    members = members_of(name)
    for path in [p for p in _paths(members) if isinstance(_at(members, p), dict)]:
        for key in list(_at(members, path)):
            less = copy.deepcopy(members)
            del _at(less, path)[key]
            more = copy.deepcopy(members)
            _at(more, path)["uid_"] = 1
            for changed in (less, more):
                with pytest.raises((MalformedInput, UnsupportedInput)):
                    parse(canonical.write(changed))
                assert not VALIDATORS[name].is_valid(changed)


JUNK = (
    st.none()
    | st.booleans()
    | st.integers(1 - 2**53, 2**53 - 1)
    | st.text(alphabet="abc019:.-/ é", max_size=80)
    | st.sampled_from(["", "sha256:" + "0" * 64, "0" * 64, "1.0", "1e-9", "clear", "2026-11-30T12:00:00Z", [], {}])
)


@pytest.mark.parametrize("name", EVERY)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_whatever_is_read_is_valid_under_the_published_schema(name: str, data: st.DataObject) -> None:
    members = members_of(name)
    path = data.draw(st.sampled_from([p for p in _paths(members) if p]))
    _at(members, path[:-1])[path[-1]] = data.draw(JUNK)
    try:
        statement = parse(canonical.write(members))
    except AttestError:
        return
    VALIDATORS[name].validate(members)
    assert json.loads(statement.payload()) == members


def test_other_types_are_refused_by_name() -> None:
    for member, value in (
        ("_type", "https://in-toto.io/Statement/v0.1"),
        ("predicateType", "https://slsa.dev/provenance/v1"),
    ):
        for other in (value, None, 7, []):
            with pytest.raises(UnsupportedInput) as caught:
                parse(canonical.write(members_of("ownership") | {member: other}))
            assert caught.value.code == "unsupported_input"


def test_payloads_must_be_canonical() -> None:
    with pytest.raises(MalformedInput) as caught:
        parse(json.dumps(members_of("ownership")).encode())
    assert caught.value.code == "not_canonical"


def test_addresses_inside_are_at_prefix_42() -> None:
    members = members_of("ownership")
    members["predicate"]["context"]["hotkey"] = ss58.encode(hotkey(MINER).public_bytes, prefix=0)
    with pytest.raises(MalformedInput):
        parse(canonical.write(members))


@pytest.mark.parametrize("revision", ["main", "a" * 39, "A" * 40, "refs/heads/main", "a" * 41])
def test_a_branch_is_no_revision(revision: str) -> None:
    members = members_of("ownership")
    members["predicate"]["release"]["revision"] = revision
    with pytest.raises(MalformedInput, match="revision"):
        parse(canonical.write(members))


def test_subjects_are_exactly_what_the_predicate_needs() -> None:
    statement = ownership()
    content, *rest = statement.subjects
    for subjects in ((), tuple(rest), (*statement.subjects, content), (content, Subject.of("sealed-root", "0" * 64))):
        with pytest.raises(MalformedInput):
            Statement(subjects, statement.predicate)
    with pytest.raises(MalformedInput, match="contradicts"):
        Statement((Subject.of("subnet", "0" * 64),), snapshot().predicate)


def _changed(name: str, *changes: tuple[tuple[Any, ...], Any]) -> bytes:
    members = members_of(name)
    for path, value in changes:
        _at(members["predicate"], path[:-1])[path[-1]] = value
    return canonical.write(members)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("snapshot", [(("genesis",), "0x" + "0" * 64)]),
        ("snapshot", [(("netuid",), 121)]),
        ("snapshot", [(("expires_at",), "2026-11-30T11:00:00Z")]),
        ("snapshot", [(("verdicts", 1, "uid"), 12)]),
        ("snapshot", [(("verdicts", 0, "multiplier"), "1.1")]),
        ("snapshot", [(("verdicts", 0, "multiplier"), "-0")]),
        ("commitment", [(("chain",), "0" * 64)]),
        ("commitment", [(("open_round",), 657413)]),
        ("commitment", [(("commitment",), "0" * 64)]),
        ("commitment", [(("batch",), {"root": "sha256:" + "0" * 64, "index": 3, "size": 3})]),
        ("reveal", [(("context", "parents"), [])]),
        ("decision", [(("multiplier",), None)]),
        ("decision", [(("outcome",), "upheld")]),
        ("decision", [(("reasons",), "  ")]),
        ("sealed", [(("fingerprint",), "sha256:" + "0" * 64)]),
        ("opening", [(("opening",), None)]),
        ("opening", [(("context", "parents"), [])]),
        ("ownership", [(("form",), "opening")]),
        ("ownership", [(("context", "claimed_at"), "2026-02-30T12:00:00Z")]),
        ("ownership", [(("context", "parents"), ["sha256:" + "0" * 64] * 2)]),
        ("lineage", [(("changes", "changed"), 3)]),
        ("lineage", [(("tensors",), 6)]),
        ("lineage", [(("parent", "tensors"), 6)]),
        ("lineage", [(("parent", "statement"), "sha256:" + "0" * 64)]),
        ("lineage", [(("changes", "listed", 0, "name"), "layer.4")]),
        ("lineage", [(("changes", "listed", 0, "after"), None), (("changes", "listed", 0, "before"), None)]),
    ],
)
def test_records_that_contradict_themselves_are_refused(name: str, changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    with pytest.raises(MalformedInput):
        parse(_changed(name, *changes))
