"""Structured logs on stderr, one JSON object a line, without secrets.

What a field is called and what it holds both count: fields with telling names are hidden, user and password are taken
out of every URL, and no value of a secret setting gets through, wherever it stands (in a message, a path or a
traceback). What other libraries log goes the same way.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, MutableMapping
from typing import Any, Final, TextIO

import structlog
from pydantic import SecretStr

from .settings import Settings
from .text import printable

HIDDEN: Final = "[hidden]"
LEVELS: Final = ("debug", "info", "warning", "error")
LEAST_SECRET: Final = 6
"""Shorter texts are not searched for: they would hide half of every line."""
_TELLING: Final = re.compile(
    r"pass(word|wd|phrase)?$|secret|token|authori[sz]ation|signature|cookie|seed|api_?key|private", re.I
)
_USERINFO: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]+@")
_QUERY: Final = re.compile(r"([?&][^=&\s]*(?:pass|secret|token|key|sig)[^=&\s]*=)[^&\s]+", re.I)
_DEPTH: Final = 6
_LONGEST: Final = 8_000
_SHARED: Final[list[Any]] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
]
Event = MutableMapping[str, Any]


class Redactor:
    """A structlog processor that takes secrets out of an event.

    Args:
        secrets: Values that must never be shown.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = sorted({s for s in secrets if len(s) >= LEAST_SECRET}, key=len, reverse=True)

    def __call__(self, logger: Any, method: str, event: Event) -> Event:
        """The event as it may be shown."""
        return {str(name): self._value(str(name), value, 0) for name, value in event.items()}

    def text(self, text: str) -> str:
        """A text as it may be shown."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return _QUERY.sub(rf"\1{HIDDEN}", _USERINFO.sub(r"\1", text))[:_LONGEST]

    def _value(self, name: str, value: Any, depth: int) -> Any:
        if _TELLING.search(name):
            return HIDDEN
        if isinstance(value, bool | int | float) or value is None:
            return value
        if depth >= _DEPTH:
            return HIDDEN
        if isinstance(value, dict):
            return {self.text(str(k)): self._value(str(k), v, depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._pair(v, depth) for v in value]
        if isinstance(value, bytes):
            return f"{len(value)} bytes"
        return self.text(str(value))

    def _pair(self, value: Any, depth: int) -> Any:
        """Headers come as pairs: the first says what the second is."""
        if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str | bytes):
            name = value[0].decode("latin-1") if isinstance(value[0], bytes) else value[0]
            return [self.text(name), self._value(name, value[1], depth + 1)]
        return self._value("", value, depth + 1)


def secrets_of(settings: Settings) -> list[str]:
    """Every secret value among the settings, and the password inside the database's URL."""
    found = [value.get_secret_value() for _, value in settings if isinstance(value, SecretStr)]
    password = re.search(r"://[^/\s:@]*:([^/\s@]+)@", settings.database.get_secret_value())
    return [*found, *([password[1]] if password else [])]


_SERVERS = ("uvicorn", "uvicorn.error", "uvicorn.access")
"""Loggers that uvicorn, where it was started with its own settings, sends past everybody else's handlers."""


def configure(settings: Settings, *, stream: TextIO | None = None) -> None:
    """Send everything that is logged in this process through one chain to ``stream`` (stderr)."""
    redact = Redactor(secrets_of(settings))
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                redact,
                structlog.processors.JSONRenderer(sort_keys=True, ensure_ascii=True),
            ],
        )
    )
    root = logging.getLogger()
    for old in [h for h in root.handlers if getattr(h, "ours", False)]:
        root.removeHandler(old)
    handler.ours = True  # type: ignore[attr-defined]
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    for name in _SERVERS:
        talker = logging.getLogger(name)
        talker.handlers.clear()
        talker.propagate = True


def logger(name: str) -> Any:
    """A logger; ``log.info("what happened", field=value)``."""
    chain = [structlog.stdlib.filter_by_level, *_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter]
    return structlog.wrap_logger(logging.getLogger(name), processors=chain, wrapper_class=structlog.stdlib.BoundLogger)


def shown(text: str) -> str:
    """Text from outside, for a field: on one line and bounded."""
    return printable(text)[:400]
