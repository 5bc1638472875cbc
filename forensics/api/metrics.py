"""``/metrics``: what the service does and how it stands, for Prometheus.

Labels have few values: methods, routes (templates, never paths), statuses, states, and codes of the one table. Nothing
is labelled by hotkey or digest, for there are as many of these as an attacker likes.

Several processes share their counts through files (``PROMETHEUS_MULTIPROC_DIR``, which ``forensics serve --workers``
sets). What stands in the database is asked when somebody asks us.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import ForensicsError
from ..store.chain import SyncRow
from ..store.engine import reading
from ..store.entries import EntryRow
from ..store.hooks import MessageRow
from ..store.verdicts import SnapshotRow
from .logs import Access

if TYPE_CHECKING:
    from .services import Services

FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
UNROUTED: Final = "none"
SNAPSHOT, VERDICT = "/v1/netuids/{netuid}/verdicts", "/v1/netuids/{netuid}/verdicts/{hotkey}"
_WAITING: Final = select(func.count()).select_from(MessageRow).where(MessageRow.due_at.is_not(None))


class Counts:
    """What this process counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "forensics_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "forensics_http_seconds", "Time to answer.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self.reads = {
            (route, status): self.requests.labels("GET", route, str(status))
            for route in (SNAPSHOT, VERDICT)
            for status in (200, 304, 404)
        }

    def read(self, route: str, status: int) -> None:
        """Count a verdict read; as cheap as it can be."""
        counter = self.reads.get((route, status))
        (counter or self.requests.labels("GET", route, str(status))).inc()


class Standing(Collector):
    """What stands in the database, asked at scrape time.

    Args:
        services: Whose database.
    """

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self) -> Iterable[Metric]:
        """Nothing before it is asked for: the database may not be there yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Everything that can be had; what cannot be had is left out, and ``forensics_store_up`` is 0."""
        up = GaugeMetricFamily("forensics_store_up", "Whether the database answers.")
        try:
            found = list(self._found())
        except ForensicsError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from found

    def _found(self) -> Iterator[Metric]:
        genesis = self._services.genesis
        states = GaugeMetricFamily("forensics_submissions", "Submissions by state.", labels=["state"])
        lag = GaugeMetricFamily("forensics_chain_block", "Newest block that was read.", labels=["netuid"])
        head = GaugeMetricFamily("forensics_chain_head", "Newest final block that was seen.", labels=["netuid"])
        with reading(self._services.engine) as session:
            for state, count in session.execute(select(EntryRow.state, func.count()).group_by(EntryRow.state)):
                states.add_metric([state], count)
            for row in session.scalars(select(SyncRow).where(SyncRow.genesis == genesis)):
                lag.add_metric([str(row.netuid)], row.block)
                head.add_metric([str(row.netuid)], row.head)
            newest = session.execute(
                select(SnapshotRow.netuid, func.max(SnapshotRow.sequence), func.max(SnapshotRow.expires_at))
                .where(SnapshotRow.genesis == genesis, SnapshotRow.leaf.is_not(None))
                .group_by(SnapshotRow.netuid)
            ).all()
            waiting = session.execute(_WAITING).scalar() or 0
        yield from (states, lag, head)
        hooks = GaugeMetricFamily("forensics_hooks_waiting", "Messages to webhooks that were not received yet.")
        hooks.add_metric([], waiting)
        yield hooks
        yield from _snapshots(newest)
        size = GaugeMetricFamily("forensics_log_size", "Entries in the transparency log.")
        size.add_metric([], self._services.log.size())
        yield size


def _snapshots(newest: Iterable[tuple[int, int, object]]) -> Iterator[Metric]:
    numbers = GaugeMetricFamily("forensics_snapshot_sequence", "Newest snapshot's number.", labels=["netuid"])
    expiry = GaugeMetricFamily(
        "forensics_snapshot_expires", "When the newest snapshot expires, Unix seconds.", labels=["netuid"]
    )
    for netuid, sequence, expires in newest:
        numbers.add_metric([str(netuid)], sequence)
        if hasattr(expires, "timestamp"):
            expiry.add_metric([str(netuid)], expires.timestamp())
    yield from (numbers, expiry)


def page(services: Services) -> bytes:
    """The text that Prometheus reads."""
    registry = services.counts.registry
    if os.environ.get(FOLDER):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    standing = CollectorRegistry()
    standing.register(Standing(services))
    return generate_latest(registry) + generate_latest(standing)


class Measured:
    """ASGI middleware that counts and times what comes after, and writes the access log.

    Args:
        app: What comes after.
        counts: Where to.
        access: The log.
    """

    def __init__(self, app: ASGIApp, counts: Counts, access: Access) -> None:
        self._app, self._counts, self._access = app, counts, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count and time."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNROUTED)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._counts.requests.labels(method, route, str(status)).inc()
        self._counts.seconds.labels(route).observe(seconds)
        self._access.request(scope, route=route, status=status, seconds=seconds)
