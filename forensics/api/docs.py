"""``/docs``: the API as one page without scripts, made from its own OpenAPI description; works offline."""

from __future__ import annotations

from html import escape
from typing import Any, Final

_STYLE: Final = "body{font:16px/1.5 system-ui;margin:2rem auto;max-width:60rem}td{padding:.2rem 1rem .2rem 0}"


def page(description: dict[str, Any]) -> str:
    """The page.

    Args:
        description: OpenAPI 3 document.
    """
    rows = [
        f"<tr><td><code>{escape(method.upper())}</code><td><code>{escape(path)}</code><td>{escape(says['summary'])}"
        for path, methods in description["paths"].items()
        for method, says in methods.items()
    ]
    info = description["info"]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(info['title'])}</title>"
        f"<style>{_STYLE}</style><h1>{escape(info['title'])}</h1><p>{escape(info['summary'])}"
        "<p>Reads are public. Writes are signed requests (btauth/1) and take <code>Idempotency-Key</code>. Errors are "
        "<code>application/problem+json</code> with a stable <code>code</code>. "
        "The whole description: <a href=/openapi.json>openapi.json</a>."
        f"<table>{''.join(rows)}</table></html>"
    )
