"""``python -m forensics.cli.document``: docs/cli.md, written from the commands themselves.

A test writes it again and compares, so the page cannot fall behind.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ..settings import Settings
from .main import app
from .main import main as run

PLAIN = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1", "TERM": "dumb"}
PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
HEAD = """# Commands

Written by `python -m forensics.cli.document`; edit the commands, not this page.

stdout is data, stderr is talk. `--json` prints exactly one document on stdout, an error document included:
`{"error": {"code", "message", "where", "got", "expected", "remedy"}}`.

| exit code | meaning |
| --- | --- |
| 0 | clean |
| 1 | finding: a copy |
| 2 | usage |
| 3 | bad input, or integrity failed |
| 4 | unavailable: try again or elsewhere; proves nothing |
| 130 | interrupted |
| 141 | the reader of the output went away |
"""
SETTINGS = """## Settings

Flag > environment > TOML > default. The file is `FORENSICS_CONFIG`, or `config.toml` in the home.

| setting | environment | default | meaning |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The whole page."""
    helps = [f"## {title}\n\n```\n{help_of(title)}\n```\n" for title in titles()]
    return "\n".join([HEAD, *helps, SETTINGS.rstrip(), *_settings()]) + "\n"


def titles() -> list[str]:
    """Every command as it is typed, ``forensics`` itself first."""
    return ["forensics", *_below(typer.main.get_command(app), "forensics")]


def _below(group: Any, prefix: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _below(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}"


def help_of(title: str) -> str:
    """What ``--help`` prints, at a width of its own, without colours."""
    out = io.StringIO()
    before = {name: os.environ.get(name) for name in PLAIN}
    os.environ.update(PLAIN)
    try:
        with contextlib.redirect_stdout(out):
            run([*title.split()[1:], "--help"])
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return "\n".join(line.rstrip() for line in out.getvalue().strip().splitlines())


def _settings() -> Iterator[str]:
    meanings = dict(re.findall(r"^ {8}(\w+): (.+)$", Settings.__doc__ or "", flags=re.MULTILINE))
    for name, field in Settings.model_fields.items():
        number = isinstance(field.default, int | float)
        default = field.default if number else "the platform's data folder" if name == "home" else "in the home"
        yield f"| `{name}` | `FORENSICS_{name.upper()}` | {default} | {_cell(meanings.get(name, ''))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Write the page, or with ``--check`` say whether it is current."""
    parser = argparse.ArgumentParser(prog="forensics.cli.document", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the page is not current")
    if parser.parse_args().check:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
        print("docs/cli.md is current" if current else "docs/cli.md is out of date: python -m forensics.cli.document")
        return 0 if current else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
