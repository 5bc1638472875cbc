"""The state a command works on, opened only when a command asks for it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ..known.index import Index
    from ..known.registry import Registry
    from ..settings import Settings


class Home:
    """Settings, registry and index, each made at first use, so that ``compare`` on two paths needs no database.

    Args:
        flags: Options given on the command line, None where they were not.
    """

    def __init__(self, flags: dict[str, Any] | None) -> None:
        self._flags = flags or {}

    @cached_property
    def settings(self) -> Settings:
        """Flag > environment > TOML > default."""
        from ..settings import load

        return load(**self._flags)

    @cached_property
    def unprepared(self) -> Engine:
        """The database as it is."""
        from ..store.engine import connect

        return connect(self.settings.database_url, busy_seconds=self.settings.busy_seconds)

    @cached_property
    def engine(self) -> Engine:
        """The database at the schema of this program; an empty one is made."""
        from ..store.migrate import ensure

        ensure(self.unprepared)
        return self.unprepared

    @cached_property
    def registry(self) -> Registry:
        """Known models."""
        from ..known.registry import Registry
        from ..store.blobs import Blobs

        return Registry(self.engine, Blobs(self.settings.blobs_url))

    @cached_property
    def index(self) -> Index:
        """Search among them."""
        from ..known.index import Index

        return Index(self.engine, self.settings.home / "cache")
