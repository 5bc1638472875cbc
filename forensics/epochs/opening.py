"""The life of epochs over a home: its database, log and keys, with chain and beacon as the command line names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attest.log import Log
from attest.seeds.beacon import QUICKNET, Beacon, FixedBeacon, Network
from attest.seeds.derive import SIZE
from attest.seeds.seal import SealKey

from ..errors import BadInput, UsageError
from ..keys import Keys
from ..log_store import DatabaseLog
from .file_chain import FileChain
from .interfaces import SeedChain, World
from .relays import RELAYS, HttpRelays
from .rotation import Rotation
from .shelf import Shelf

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ..place import Place
    from ..settings import Settings

MAX_BEACON_FILE: Final = 16 << 20


def seal_key(settings: Settings) -> SealKey:
    """The sealing key of the settings, read when it is needed.

    Raises:
        UsageError: When it is needed and not set, or not 64 hex digits.
    """

    def key() -> bytes:
        text = settings.seed_key.get_secret_value()
        try:
            found = bytes.fromhex(text)
        except ValueError:
            found = b""
        if len(found) != SIZE:
            raise UsageError(
                "hidden seeds need a key that seals them at rest",
                where="setting seed_key",
                expected="64 hex digits in FORENSICS_SEED_KEY",
                remedy="Make one: `openssl rand -hex 32`; keep it apart from the database.",
            )
        return found

    return key


def beacon_of(sources: Sequence[str], *, network: Network = QUICKNET) -> Beacon:
    """Relays by their URLs, or one file of answers; the built-in relays when nothing is named.

    Raises:
        UsageError: A source that is neither.
        BadInput: The file cannot be read.
    """
    if len(sources) == 1 and not sources[0].startswith(("http://", "https://")):
        return _beacon_file(Path(sources[0]).expanduser())
    return HttpRelays(tuple(sources) or RELAYS, network=network)


def network_of(public_key: str | None) -> Network:
    """Quicknet, or for a rehearsal a network with another public key.

    Raises:
        UsageError: Not hex.
    """
    if public_key is None:
        return QUICKNET
    try:
        return replace(QUICKNET, public_key=bytes.fromhex(public_key))
    except ValueError:
        raise UsageError("not a public key", where="--rehearsal-key", expected="192 hex digits") from None


def open_rotation(
    settings: Settings, engine: Engine, place: Place, *, chain: SeedChain, beacon: Beacon, network: Network = QUICKNET
) -> Rotation:
    """The life of one place's epochs in a home; keys, tables and log are made where they are missing.

    Raises:
        LogTampered: The stored log is not the one that was signed.
    """
    keys = Keys.of(settings)
    signer = keys.service()
    log = Log(DatabaseLog(engine), signer, origin=keys.service_public(origin=settings.origin).name)
    world = World(signer=signer, seal_key=seal_key(settings), beacon=beacon, network=network)
    return Rotation(Shelf(engine, log, place), world, chain)


def chain_of(name: str | None, settings: Settings, engine: Engine, *, netuid: int, pair: Any = None) -> SeedChain:
    """A rehearsal's chain file, or a node of a network.

    Args:
        name: A file, a network or a ``ws(s)://`` endpoint; the settings' network when None.
        settings: Of the home.
        engine: Where anchors are remembered.
        netuid: Subnet on which the anchoring hotkey is registered.
        pair: That hotkey; without it nothing is anchored.

    Raises:
        UsageError: No such network.
    """
    path = Path(name or "").expanduser()
    if name and path.is_file():
        return FileChain(path)
    from ..chain.anchors import CommitmentAnchors
    from ..chain.subtensor import Subtensor
    from ..log_store import DatabaseAnchors
    from .node import NodeChain

    node = Subtensor(name or settings.network, signer=pair)
    return NodeChain(node, CommitmentAnchors(node, netuid=netuid, book=DatabaseAnchors(engine)))


def _beacon_file(path: Path) -> FixedBeacon:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BEACON_FILE + 1)
    except OSError as error:
        raise UsageError("cannot read the beacon file", where="--beacon", got=error.strerror or str(path)) from None
    if len(data) > MAX_BEACON_FILE:
        raise BadInput("the beacon file is too large", where=str(path), expected=f"at most {MAX_BEACON_FILE} bytes")
    return FixedBeacon.parse(data)
