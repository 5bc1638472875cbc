"""Every code of the API stands in one table, once, with one status; the pages made from it are current."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from forensics.api import codes, document
from forensics.api.app import describe

SOURCE = Path(codes.__file__).parents[1]
BEHIND = [SOURCE / name for name in ("api", "attestations", "entries", "epochs", "known", "results", "store")]
"""What answers requests; folders and bundles are checked on the command line alone, and have words of their own."""


def calls(*folders):
    for folder in folders:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    yield path, node


def name_of(call):
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def raised():
    """(status, code) wherever both are written down in a refusal."""
    for path, call in calls(SOURCE):
        if name_of(call) in ("Problem", "problem") and len(call.args) > 1:
            status, code = call.args[:2]
            if isinstance(status, ast.Constant) and isinstance(code, ast.Constant) and isinstance(status.value, int):
                yield path.name, status.value, code.value


@pytest.fixture(scope="module")
def table():
    document.errors_page()  # loads every module that defines errors
    return {row.code: row for row in codes.every()}


def test_every_refusal_in_the_code_is_in_the_table_with_its_status(table):
    found = list(raised())
    assert len(found) > 25
    wrong = [
        (where, status, code) for where, status, code in found if code not in table or table[code].status != status
    ]
    assert wrong == []


def test_every_code_of_the_table_of_http_is_used():
    text = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if path.name != "codes.py")
    assert [code for code in codes.HTTP if f'"{code}"' not in text] == []


def test_names_given_to_single_errors_are_in_the_table(table):
    """``AttestError(code=...)`` overrides its class's code."""
    given = {
        keyword.value.value
        for _, call in calls(*BEHIND)
        if name_of(call)[:1].isupper()
        for keyword in call.keywords
        if keyword.arg == "code" and isinstance(keyword.value, ast.Constant)
    }
    assert {code for code in given if isinstance(code, str) and "." not in code} <= set(table)


def test_each_code_once_with_a_meaning(table):
    assert len(table) == len(codes.every())
    assert all(row.means and 400 <= row.status <= 599 for row in table.values())
    assert list(codes.HTTP) == sorted(codes.HTTP)


@pytest.mark.parametrize("page", ["errors", "openapi"])
def test_the_pages_are_current(page):
    path, text = {
        "errors": (document.ERRORS, document.errors_page),
        "openapi": (document.OPENAPI, document.openapi_page),
    }[page]
    assert path.read_text() == text(), "run python -m forensics.api.document"


def test_every_operation_has_a_summary_an_example_and_problems():
    for path, methods in describe()["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            said = [r.get("content", {}) for status, r in operation["responses"].items() if status[0] == "4"]
            assert all("application/json" not in content for content in said), where
