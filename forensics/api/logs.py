"""The access log: one line a request, the caller's address and the route, and nothing that was signed or secret.

Reads of verdicts are counted (``metrics``) and not logged: there are thousands a second. What a query asks for is not
logged either; the path is.
"""

from __future__ import annotations

from typing import Any

from starlette.types import Scope

from .. import logs

HEALTH = frozenset({"/healthz", "/readyz", "/metrics"})


class Access:
    """Writes the access log.

    Args:
        log: A logger; the service's own when absent.
    """

    def __init__(self, log: Any = None) -> None:
        self._log = log or logs.logger("forensics.access")

    def request(self, scope: Scope, *, route: str, status: int, seconds: float) -> None:
        """Note one request."""
        client = scope.get("client")
        fields = {
            "method": logs.shown(scope["method"]),
            "path": logs.shown(scope["path"]),
            "route": route,
            "status": status,
            "milliseconds": round(seconds * 1000, 1),
            "client": client[0] if client else None,
        }
        if status >= 500:
            self._log.error("request", **fields)
        elif scope["path"] in HEALTH:
            self._log.debug("request", **fields)
        else:
            self._log.info("request", **fields)
