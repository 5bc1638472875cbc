from __future__ import annotations

from forensics.cli import document


def test_the_page_is_current():
    assert document.PAGE.read_text(encoding="utf-8") == document.page(), "run: python -m forensics.cli.document"


def test_every_command_of_the_page_has_its_help():
    page = document.page()
    for title in document.titles():
        assert f"Usage: {title}" in page
