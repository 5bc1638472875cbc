"""From settings to a hub."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from ..errors import UsageError
from ..settings import Settings
from ..text import without_userinfo
from .huggingface import TRIES, HuggingFaceHub
from .interface import Hub
from .limits import FetchLimits
from .local import LocalHub
from .pool import Pool
from .wire import connect


def limits_of(settings: Settings) -> FetchLimits:
    """The bounds that the settings give."""
    return FetchLimits(
        total_bytes=settings.hub_total_bytes, file_bytes=settings.hub_file_bytes, keep_free=settings.hub_keep_free
    )


def open_hub(settings: Settings, *, tries: int = TRIES) -> Hub:
    """The hub that the settings name.

    Raises:
        UsageError: The setting is no URL that is understood.
        HubMisuse: The folder of a ``file:`` URL is not there.
    """
    parts = urlsplit(settings.hub)
    if parts.scheme == "file":
        return LocalHub(Path(unquote(parts.path)), limits_of(settings))
    if not parts.hostname or parts.username or parts.password:
        raise UsageError("no URL of a hub", where="setting hub", got=without_userinfo(settings.hub)[:120])
    wire = connect(settings.hub, token=settings.hub_token.get_secret_value())
    pool = Pool(settings.home / "cache" / "hub" / "files", max_bytes=settings.hub_pool_bytes)
    return HuggingFaceHub(wire, limits_of(settings), pool=pool if settings.hub_pool_bytes else None, tries=tries)
