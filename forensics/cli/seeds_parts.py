"""What the ``seeds`` commands have in common: their options read, their epochs shown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..errors import Exit, UsageError
from .console import emit, say
from .output import write_file

if TYPE_CHECKING:
    from attest.log.note import NoteKey
    from attest.seeds.beacon import Network
    from attest.seeds.monitor import Watch
    from attest.seeds.plan import Plan

    from ..epochs.records import Epoch
    from ..epochs.rotation import Happened, Rotation
    from ..epochs.verifying import ReadLog
    from .home import Home

TRACERS: Final = 60
"""Tracers of each validator over all environments, where ``--items`` does not say: at a lift of .1 a leak is then named
in 95 of 100 epochs at the level .01 (``python -m benchmarks.overfit --parts leaks``)."""

LARGEST: Final = (1 << 53) - 1
"""Largest number of an epoch or a round: JSON has none beyond."""


def next_round(last: Epoch | None, every: int, now: int, network: Network) -> int:
    """After the last epoch committed, or an hour ahead."""
    ahead = network.round_at(now + 3600) + 1
    return ahead if last is None else max(ahead, last.mix_round + every)


def plan(items: list[str]) -> Plan:
    """The plan of ``NAME=COMMON[+TRACERS]`` options; environments that name no tracers share ``TRACERS``.

    Raises:
        UsageError: No such amounts, an environment twice or without any item.
    """
    from attest.errors import MalformedInput
    from attest.seeds.plan import Environment, Plan

    read = [_amounts(text) for text in items]
    open_ = sum(tracers is None for *_, tracers in read)
    share = -(-TRACERS // open_) if open_ else 0
    try:
        return Plan.of(*(Environment(name, common, share if own is None else own) for name, common, own in read))
    except MalformedInput as error:
        raise UsageError(error.what, where="--items", got=error.got, expected=error.expected) from None


def _amounts(text: str) -> tuple[str, int, int | None]:
    name, _, amounts = text.partition("=")
    common, plus, tracers = amounts.partition("+")
    if not name or not name.isprintable() or not _count(common) or (plus and not _count(tracers)):
        raise UsageError("not a number of items", where="--items", got=text[:80], expected="NAME=COMMON+TRACERS")
    if int(common) == 0 and (not plus or int(tracers) == 0):
        raise UsageError("an environment without items", where="--items", got=text[:80], expected="at least one")
    return name, int(common), int(tracers) if plus else None


def _count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


def generator(text: str) -> str:
    """A digest as it is, or that of a file.

    Raises:
        UsageError: Neither.
    """
    import re
    from hashlib import file_digest

    if re.fullmatch(r"sha256:[0-9a-f]{64}", text):
        return text
    path, why = Path(text).expanduser(), "sha256:... or a file"
    try:
        if path.is_file():
            with path.open("rb") as file:
                return "sha256:" + file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or why
    raise UsageError("neither a digest nor a file", where="--generator", got=text[:80], expected=why)


def advance(rotation: Rotation, *, check_key: bool) -> list[Happened]:
    """Everything that can be done now; nothing, if the sealing key is to be checked and is a wrong one.

    Raises:
        SealInvalid: It opens none of the sealed secrets.
    """
    if check_key:
        rotation.check_key()
    return rotation.advance()


def running(epochs: list[Epoch]) -> list[Epoch]:
    """The first epoch that is under way; else the next one ahead, else the last."""
    from ..epochs.machine import FINAL

    living = [epoch for epoch in epochs if epoch.state not in FINAL]
    return living[:1] or epochs[-1:]


def report(rotation: Rotation, numbers: list[int], happened: list[Happened], *, out: Path | None, as_json: bool) -> int:
    """Write the public files that were asked for, and show epochs and what happened to them.

    Returns:
        3 when an epoch's secret cannot be used, else 0.
    """
    from ..epochs.public import epoch_file

    network = rotation.world.network
    epochs = [rotation.shelf.epoch(number) for number in numbers]
    code = Exit.BAD_INPUT if any(h.failed for h in happened) else Exit.CLEAN
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for number in numbers:
            write_file(out / f"epoch-{number}.json", epoch_file(rotation.shelf, number).encode(), option="--out")
    if as_json:
        emit(
            {
                "log": str(rotation.shelf.log.key),
                "epochs": [document(epoch, network) for epoch in epochs],
                "happened": [{"epoch": h.epoch, "state": h.state and str(h.state), "note": h.note} for h in happened],
            }
        )
        return code
    for h in happened:
        say(
            f"epoch {h.epoch}: {h.state}{', ' + h.note if h.note else ''}" if h.epoch is not None else f"note: {h.note}"
        )
    for epoch in epochs:
        print(f"epoch {epoch.number}  {epoch.state}" + (f"  {epoch.void_reason}" if epoch.void_reason else ""))
        print(f"  commitment {epoch.commitment.hex()}")
        print(f"  mixed with round {epoch.mix_round}, {time_of(epoch.mix_round, network)}")
        print(f"  opens with round {epoch.open_round}, {time_of(epoch.open_round, network)}")
    if not epochs:
        say("no epochs are committed; `forensics seeds commit` commits some")
    return code


def log_reader(url: str, home: Home) -> ReadLog:
    """Reads a service's whole log, unless it is known to have shown two."""
    from ..claims.remote import Remote
    from ..epochs.verifying import watched
    from ..forks import FOLDER, Forks

    def read(key: NoteKey) -> Watch:
        Forks(home.settings.home / FOLDER).check(key)
        remote = Remote(url)
        return watched(key, remote.checkpoint(), remote.tile)

    return read


def document(epoch: Epoch, network: Network) -> dict[str, Any]:
    """An epoch as JSON; everything in it is public."""
    return {
        "epoch": epoch.number,
        "state": str(epoch.state),
        "void_reason": epoch.void_reason or None,
        "commitment": epoch.commitment.hex(),
        "pool": "sha256:" + epoch.plan.digest.hex(),
        "plan": epoch.plan.write(),
        "generator": epoch.generator,
        "mix_round": epoch.mix_round,
        "mix_at": time_of(epoch.mix_round, network),
        "open_round": epoch.open_round,
        "open_at": time_of(epoch.open_round, network),
        "batch": {"root": epoch.place.root.hex(), "index": epoch.place.index, "size": epoch.place.size},
        "anchor": None if epoch.stamp is None else epoch.stamp.write(),
        "validators": len(epoch.roster),
    }


def time_of(round_: int, network: Network) -> str:
    """When a round is published, in UTC."""
    return datetime.fromtimestamp(network.time_of(round_), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(at: str | None) -> int:
    """POSIX time of ``--at``, or now."""
    try:
        moment = datetime.now(UTC) if at is None else datetime.strptime(at, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise UsageError("not a time", where="--at", got=at or "", expected="2026-11-30T12:00:00Z") from None
    return int(moment.timestamp())
