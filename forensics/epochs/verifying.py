"""An epoch's public file checked for a person or a program, without a home, a database or a network."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attest.errors import AttestError
from attest.log.note import NoteKey, open_checkpoint
from attest.seeds.beacon import Beacon, Network
from attest.seeds.derive import Context
from attest.seeds.epoch_file import MAX_BYTES, EpochFile
from attest.seeds.errors import BeaconUnavailable
from attest.seeds.monitor import Watch
from attest.seeds.plan import Item, every, traced_to
from attest.seeds.report import Link, Outcome, Report
from attest.seeds.verify import verify

from ..chain.interface import ChainReader
from ..errors import Exit, Unavailable, UsageError
from ..verifying.audits import Fetch, audit
from .confirming import confirmer

ReadLog = Callable[[NoteKey], Watch]
"""Reads the whole log of a key."""


@dataclass(frozen=True)
class CheckedEpoch:
    """A report with what it was made from.

    Args:
        epoch: The file.
        report: What was found.
        key: The key it was checked with.
        pinned: Whether the reader named that key; otherwise the file did.
        quicknet: Whether the beacon is drand quicknet.
    """

    epoch: EpochFile
    report: Report
    key: NoteKey
    pinned: bool
    quicknet: bool


def read(path: Path) -> EpochFile:
    """An epoch file from disk.

    Raises:
        Unavailable: It cannot be read.
        MalformedInput: It is no epoch file.
    """
    try:
        with path.expanduser().open("rb") as file:
            return EpochFile.parse(file.read(MAX_BYTES + 1))
    except OSError as error:
        raise Unavailable("cannot read", where=str(path), got=error.strerror or str(error)) from None


def check(
    epoch: EpochFile,
    *,
    trust: str | None,
    network: Network,
    now: int,
    source: Beacon | None = None,
    chain: ChainReader | None = None,
    log: ReadLog | None = None,
) -> CheckedEpoch:
    """Verify a file with the key the reader trusts, or for want of one with the key the file names.

    Args:
        epoch: The file.
        trust: The service's key, or a file with it.
        network: Whose signatures count.
        now: POSIX time by which lateness is judged.
        source: Gives the beacon's signatures that the file leaves out.
        chain: Asked for the blocks that hold anchors; they count as the file states them when None.
        log: Reads the whole log, whose word then counts for what the file leaves out.

    Raises:
        UsageError: ``trust`` is no key.
        ChainUnavailable: The chain gives no answer.
        NoteInvalid: The log's checkpoint is not signed by the key.
        LogTampered: The leaves served are not those that were signed.
    """
    key = epoch.log_key if trust is None else _key(trust)
    confirm = None if chain is None else confirmer(chain)
    watch = None if log is None else log(key)

    def look(epoch: EpochFile) -> Report:
        return verify(epoch, key=key, now=now, network=network, confirm=confirm, watch=watch)

    report = look(epoch)
    if source is not None and report.context is not None:
        epoch = _completed(epoch, report.context, source)
        report = look(epoch)
    if watch is not None:
        report = replace(report, links=(*report.links, _story(watch, report)))
    return CheckedEpoch(epoch, report, key, trust is not None, network.is_quicknet)


def watched(key: NoteKey, checkpoint: bytes, fetch: Fetch) -> Watch:
    """Read a whole log.

    Args:
        key: Whose it is.
        checkpoint: The log's newest signed checkpoint.
        fetch: Gets the log's tiles.

    Raises:
        NoteInvalid: The checkpoint is not signed by the key.
        LogTampered: The leaves served are not those that were signed.
    """
    watch = Watch(key)
    audit(open_checkpoint(checkpoint, log=key).checkpoint, fetch, take=watch.take)
    return watch


def _story(watch: Watch, report: Report) -> Link:
    context = report.context
    if context is None:
        return Link("log", Outcome.NOT_CHECKED, "the statement cannot be believed")
    epoch = ("0x" + context.genesis.hex(), context.netuid, context.competition, context.epoch)
    for lie in watch.found:
        if lie.epoch == epoch:
            return Link("log", Outcome.FAULT, f"leaves {lie.first} and {lie.second} tell two stories", lie.code)
    if epoch not in watch.commitments:
        return Link("log", Outcome.FAULT, "this log does not have the commitment", "not_in_log")
    return Link("log", Outcome.OK, f"{watch.size} leaves read, one story of this epoch")


def exit_code(report: Report) -> Exit:
    """How the command leaves.

    Returns:
        0 when nothing is wrong (yet), 1 for a proven fault, 3 for a file that does not hold together, 4 for one that
        leaves open what only chain or log can tell.
    """
    if any(link.outcome is Outcome.BROKEN for link in report.links):
        return Exit.BAD_INPUT
    if report.faults:
        return Exit.FINDING
    return Exit.UNAVAILABLE if report.unproven else Exit.CLEAN


def word(report: Report) -> str:
    """The whole in one word."""
    if report.wrong is not None:
        return "fault" if exit_code(report) is Exit.FINDING else "broken"
    if report.unproven:
        return "unproven"
    if report.void:
        return "void"
    return "verified" if report.complete else "pending"


def document(checked: CheckedEpoch, *, items: bool) -> dict[str, Any]:
    """The report as JSON."""
    report, context = checked.report, checked.report.context
    wrong = report.wrong
    found: dict[str, Any] = {
        "verdict": word(report),
        "epoch": None if context is None else context.epoch,
        "netuid": None if context is None else context.netuid,
        "competition": None if context is None else context.competition,
        "genesis": None if context is None else "0x" + context.genesis.hex(),
        "broken": None if wrong is None else wrong.name,
        "code": None if wrong is None else wrong.code,
        "unproven": [link.name for link in report.unproven],
        "void": report.void or None,
        "links": [
            {"link": link.name, "outcome": str(link.outcome), "code": link.code, "detail": link.detail}
            for link in report.links
        ],
        "seed": None if report.seed is None else report.seed.hex(),
        "key": str(checked.key),
        "key_pinned": checked.pinned,
        "beacon": "quicknet" if checked.quicknet else "rehearsal",
        "roster": list(report.roster),
    }
    if items:
        found["items"] = [_item(checked, item) for item in _items(checked)]
    return found


def lines(checked: CheckedEpoch, *, items: bool) -> list[str]:
    """The report for people."""
    report = checked.report
    found = [f"{link.name:<10} {link.outcome:<11} {link.detail}" for link in report.links]
    if report.wrong is not None:
        found.append(f"{word(report)}: {report.wrong.name}, {report.wrong.code}")
    elif report.unproven:
        first = report.unproven[0]
        found.append(f"unproven: {first.name}, {first.code}; --chain and --log ask who can tell")
    else:
        found.append(word(report) + (f": {report.void}" if report.void else ""))
    if items:
        for item in _items(checked):
            place = traced_to(checked.epoch.plan, item.environment, item.index)
            owner = "" if place is None else f"  only {report.roster[place]}"
            found.append(f"{item.environment} {item.index} {item.id} {item.key.hex()}{owner}")
    return found


def _completed(epoch: EpochFile, context: Context, source: Beacon) -> EpochFile:
    """The file with the signatures it lacks, as far as the source has them; they are verified with the rest."""

    def known(there: str | None, round_: int) -> str | None:
        with suppress(BeaconUnavailable):
            return there or source.signature(round_).hex()
        return None

    return replace(
        epoch,
        mix_signature=known(epoch.mix_signature, context.mix_round),
        open_signature=known(epoch.open_signature, context.open_round),
    )


def _items(checked: CheckedEpoch) -> list[Item]:
    seed = checked.report.seed
    return [] if seed is None else list(every(seed, checked.epoch.plan, len(checked.report.roster)))


def _item(checked: CheckedEpoch, item: Item) -> dict[str, Any]:
    place = traced_to(checked.epoch.plan, item.environment, item.index)
    owner = None if place is None else checked.report.roster[place]
    return {
        "environment": item.environment,
        "index": item.index,
        "id": item.id,
        "key": item.key.hex(),
        "validator": owner,
    }


def _key(text: str) -> NoteKey:
    path = Path(text).expanduser()
    try:
        return NoteKey.parse(path.read_text() if len(text) < 1024 and path.is_file() else text)
    except (AttestError, OSError, UnicodeDecodeError) as error:
        raise UsageError("not a key", where="--trust", got=str(error)[:160], expected="name+id+base64") from None
