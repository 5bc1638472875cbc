"""Text that other people wrote, made safe to show.

Names of tensors, files, repositories and labels come from miners. A control character in one can rewrite what a
reviewer sees, a bidirectional one can reorder it, and bytes that are no text cannot be encoded at all.
"""

from __future__ import annotations


def printable(text: object) -> str:
    """``text`` on one line, with control, bidirectional and other invisible characters escaped."""
    valid = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in valid)


def without_userinfo(url: str) -> str:
    """A URL, even one that is none, without the user and password before its host: these are nobody else's to see."""
    before, at, after = url.rpartition("@")
    scheme, found, _ = before.partition("://")
    return (f"{scheme}://{after}" if found else after) if at else url
