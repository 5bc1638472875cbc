"""Snapshots: what a signed one proves, and until when it may be used."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from attest.predicates import Verdicts

from .kinds import Kind
from .report import Report


def about_snapshot(said: Verdicts, report: Report, *, now: datetime) -> None:
    """Add what a snapshot says to the report of the statement that it is.

    Args:
        said: Checked.
        report: Of the statement.
        now: The time by the clock at hand.
    """
    report.kind = Kind.SNAPSHOT
    statuses = Counter(str(verdict.status) for verdict in said.verdicts)
    cut = sum(float(verdict.multiplier) < 1 for verdict in said.verdicts)
    expired = now >= _moment(said.expires_at)
    report.facts |= {
        "netuid": said.netuid,
        "block": said.block,
        "sequence": said.sequence,
        "issued_at": said.issued_at,
        "expires_at": said.expires_at,
        "expired": expired,
        "policy": {"name": said.policy.name, "version": said.policy.version, "digest": said.policy.digest},
        "log": {"origin": said.log.origin, "size": said.log.size, "root": said.log.root},
        "statuses": dict(sorted(statuses.items())),
    }
    counted = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items())) or "none"
    report.proven.append(
        f"a trusted service issued snapshot {said.sequence} of netuid {said.netuid} at block {said.block}: "
        f"{len(said.verdicts)} verdicts ({counted}), {cut} with a multiplier below 1, by policy {said.policy.name!r} "
        f"version {said.policy.version}"
    )
    if expired:
        report.not_proven.append(f"that it still holds: it expired at {said.expires_at} by this machine's clock")
    else:
        report.not_proven.append(f"that it is the newest, though it holds until {said.expires_at}: ask the service")
    report.not_proven.append("that the verdicts are right: `forensics replay` recomputes the evidence that each names")


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
