"""Reading what a model wrote: integers and lists of them, nothing else, within bounds.

The last line that begins with ``ANSWER:`` counts, else the whole text. Nothing is evaluated: the text is cut into
brackets, commas and short integers, and anything else makes it unreadable.
"""

from __future__ import annotations

import re
from typing import Final

MAX_TEXT: Final = 200_000
"""Characters of an answer that are looked at; the end of a longer one."""
MAX_VALUES: Final = 4_096
_MARK: Final = re.compile(r"^[\s*_`>#]*answer[*_`]*\s*:", re.IGNORECASE | re.MULTILINE | re.ASCII)
_TOKEN: Final = re.compile(r"\s*(?:(-?[0-9]{1,12})(?![0-9])|([\[\],]))", re.ASCII)

Values = int | list["Values"]


def read(text: str, *, depth: int) -> Values | None:
    """An integer (depth 0) or a list nested at most ``depth`` times; None when it is something else."""
    text = text[-MAX_TEXT:]
    marks = list(_MARK.finditer(text))
    body = text[marks[-1].end() :] if marks else text
    tokens = _tokens(body.strip("`*_. \t\r\n"))
    return None if tokens is None else _parse(tokens, depth)


def integers(text: str) -> list[int] | None:
    """A flat list of integers, or None."""
    found = read(text, depth=1)
    return [v for v in found if isinstance(v, int)] if isinstance(found, list) else None


def _tokens(body: str) -> list[str] | None:
    tokens: list[str] = []
    place = 0
    while place < len(body):
        match = _TOKEN.match(body, place)
        if match is None or len(tokens) > 4 * MAX_VALUES:
            return None
        tokens.append(match.group(1) or match.group(2))
        place = match.end()
    return tokens


def _parse(tokens: list[str], depth: int) -> Values | None:
    """By a stack, for nesting must not reach the interpreter's own."""
    stack: list[list[Values]] = []
    done: list[Values] = []
    expects = True  # a value or the end of an empty list may come next
    for word in tokens:
        if done:
            return None
        if word == ",":
            if expects or not stack:
                return None
            expects = True
            continue
        if word == "[":
            if not expects or len(stack) == depth:
                return None
            stack.append([])
            continue
        if word == "]":
            if not stack or (expects and stack[-1]):
                return None
            value: Values = stack.pop()
        elif not expects:
            return None
        else:
            value = int(word)
        (stack[-1] if stack else done).append(value)
        expects = False
    return done[0] if done and not stack else None
