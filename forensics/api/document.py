"""``python -m forensics.api.document``: write docs/errors.md and docs/openapi.json from the code, or check them."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Final

from . import codes

DOCS: Final = Path(__file__).parents[2] / "docs"
ERRORS: Final = DOCS / "errors.md"
OPENAPI: Final = DOCS / "openapi.json"
_HEAD: Final = """# Error codes

Every refusal of the API is `application/problem+json` (RFC 9457) with a `code` that does not change. `detail` is one
line for people; `where`, `got`, `expected` and `remedy` are there when they help. With status 429 and 503 the header
`Retry-After` says how many seconds to wait. Written from the code; do not edit.

| code | status | means | what to do |
| --- | --- | --- | --- |
"""


def errors_page() -> str:
    """The table of all codes."""
    for package in ("forensics", "attest", "fingerprint"):
        _load_errors(package)
    rows = [f"| `{row.code}` | {row.status} | {row.means} | {row.remedy} |\n" for row in codes.every()]
    return _HEAD + "".join(rows)


def openapi_page() -> str:
    """The OpenAPI description."""
    from .app import describe

    return json.dumps(describe(), indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def _load_errors(package: str) -> None:
    """Load every module that may define errors: a class counts from where it stands, not from what was imported."""
    root = import_module(package)
    for found in walk_packages(root.__path__, f"{package}."):
        if not found.name.endswith("__main__") and "migrations" not in found.name:
            import_module(found.name)


def main(arguments: list[str]) -> int:
    """Write, or with ``--check`` say whether what is there is current."""
    pages = {ERRORS: errors_page(), OPENAPI: openapi_page()}
    stale = [path.name for path, text in pages.items() if not path.exists() or path.read_text() != text]
    if "--check" in arguments:
        for name in stale:
            print(f"docs/{name} is not current: run python -m forensics.api.document", file=sys.stderr)
        return 1 if stale else 0
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
