"""Writes docs/cli.md from the commands themselves; ``--check`` says whether the page is current and changes nothing.

A hand-written reference drifts. CI runs the check.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.pop("FORENSICS_HOME", None)  # defaults that come from the environment must not reach the page

from typer.main import get_command

from forensics.cli.main import app

PAGE = Path(__file__).with_name("cli.md")
WIDTH = 100
HEAD = """# Command line

Made by `make docs` from the commands themselves. Exit codes: 0 clean, 1 finding, 2 usage, 3 bad input or failed
integrity, 4 unavailable. With `--json` stdout holds one JSON document, an error included; talk goes to stderr.
"""


def pages(command: Any, path: str, parent: Any = None) -> Iterator[tuple[str, str]]:
    """(path, help text) of a command and of everything below it, in the order in which they were registered."""
    context = command.context_class(
        command, info_name=path.split()[-1], parent=parent, terminal_width=WIDTH, max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )  # fmt: skip
    yield path, command.get_help(context)
    for name, below in getattr(command, "commands", {}).items():
        yield from pages(below, f"{path} {name}", context)


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    for path, text in pages(get_command(app), "forensics"):
        clean = "\n".join(line.rstrip() for line in text.splitlines()).strip()
        parts.append(f"## {path}\n\n```\n{clean}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or with ``--check`` compare it; 1 when it was not current."""
    now, before = render(), PAGE.read_text() if PAGE.exists() else ""
    if now == before:
        return 0
    if "--check" in sys.argv:
        sys.stderr.writelines(difflib.unified_diff(before.splitlines(True), now.splitlines(True), "cli.md", "now"))
        print("docs/cli.md is not current; run `make docs` and commit it", file=sys.stderr)
        return 1
    PAGE.write_text(now)
    print("docs/cli.md was rewritten", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
