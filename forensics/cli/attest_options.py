"""What the ``attest`` commands have in common: who signs, where, and where the statement is handed in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..text import printable
from .console import say
from .output import write_file

if TYPE_CHECKING:
    from attest.envelope import Envelope
    from attest.keys.hotkey import Hotkey
    from attest.keys.interface import Signer

    from ..claims.submitting import Submitted
    from ..place import Place
    from ..settings import Settings

Wallet = Annotated[str | None, typer.Option(help="Bittensor wallet, NAME or NAME/HOTKEY.")]
HotkeyName = Annotated[str | None, typer.Option("--hotkey", help="Name of its hotkey.")]
WalletPath = Annotated[Path | None, typer.Option(help="Folder of wallets; ~/.bittensor/wallets when absent.")]
Scheme = Annotated[
    str | None, typer.Option(help="sr25519 or ed25519; needed with --account, checked against the wallet's key.")
]
Netuid = Annotated[int | None, typer.Option(help="Subnet; that of the settings when absent.", min=0, max=0xFFFF)]
Network = Annotated[str | None, typer.Option(help="Chain by name; finney is built in.")]
Genesis = Annotated[str | None, typer.Option(help="Chain by its genesis hash, 0x and 64 hex digits.")]
Competition = Annotated[str, typer.Option(help="Competition on that subnet.")]
Submit = Annotated[str | None, typer.Option(metavar="URL", help="Hand it in to this service and keep the receipt.")]
Out = Annotated[Path | None, typer.Option(help="Folder for statement and receipt; PATH.attest when absent.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@dataclass(frozen=True)
class Speaker:
    """Who makes a statement.

    Args:
        hotkey: The account.
        pair: Its wallet's key pair; None when the key is on another machine.
        signer: Signs with it; None likewise.
    """

    hotkey: Hotkey
    pair: Any = None
    signer: Signer | None = None


def speaker(
    wallet: str | None, hotkey: str | None, folder: Path | None, *, scheme: str | None, account: str | None = None
) -> Speaker:
    """The wallet's hotkey, or an account whose key is elsewhere.

    Raises:
        UsageError: Neither, or both.
    """
    from attest.keys.hotkey import Hotkey

    from ..claims import wallets

    if (wallet is None) == (account is None):
        raise UsageError(
            "who speaks?", where="--wallet", expected="a wallet, or with --unsigned an --account and its --scheme"
        )
    if account is not None:
        return Speaker(wallets.account(account, scheme))
    pair = wallets.keypair(wallet or "", hotkey=hotkey, folder=folder)
    signer = wallets.signer_of(pair, scheme=scheme)
    return Speaker(Hotkey.of(signer.verifier), pair, signer)


def place(settings: Settings, netuid: int | None, network: str | None, genesis: str | None, competition: str) -> Place:
    """Where the statement is bound to.

    Raises:
        UsageError: No subnet, or a chain whose genesis hash is not known.
    """
    from ..place import Place, genesis_of, settings_genesis

    chosen = netuid if netuid is not None else settings.netuid
    if chosen is None:
        raise UsageError("for which subnet?", where="--netuid", expected="0 to 65535")
    named = network is not None or genesis is not None
    chain = genesis_of(network or "", genesis or "") if named else settings_genesis(settings)
    return Place(chain, chosen, competition)


def store(envelope: Envelope, file: Path) -> None:
    """Write a signed statement; an earlier one of another payload is set aside with its receipt."""
    from ..claims.shelf import set_aside

    set_aside(file, keep=envelope.digest)
    write_file(file, envelope.to_json() + b"\n", option="--out")


def hand_in(settings: Settings, url: str, envelope: Envelope, file: Path, *, pair: Any) -> Submitted:
    """Submit a statement, and keep what was logged and its receipt beside each other.

    Raises:
        BadInput: The service refused, or gave a receipt that proves nothing.
        Unavailable: It cannot be reached; the signed statement is kept and can be handed in later.
    """
    from attest.statement import parse

    from ..claims.remote import Remote
    from ..claims.shelf import receipt_of
    from ..claims.submitting import submit
    from ..trust import Pins

    pins = Pins.of(settings)
    context = parse(envelope.payload).context
    done = submit(Remote(url), envelope, pair=pair, pins=pins, genesis=context.genesis, netuid=context.netuid)
    if done.pinned:
        say(f"note: first contact with log {done.identity.log_key.name}; its key is pinned: {done.identity.log_key}")
    store(done.envelope, file)
    write_file(receipt_of(file), done.receipt, option="--out")
    return done


def show(document: dict[str, Any]) -> None:
    """A document for people: a line a member, nested ones left out."""
    for name, value in document.items():
        if isinstance(value, str | int) and not isinstance(value, bool):
            print(printable(f"{name.replace('_', ' '):<16}{value}"))
        elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            for item in value:
                print(printable(f"{name.replace('_', ' '):<16}{item}"))


def receipt_document(done: Submitted, file: Path) -> dict[str, Any]:
    """What a service answered, for the command's document."""
    from ..claims.shelf import receipt_of

    return {
        "receipt": str(receipt_of(file)),
        "log": done.identity.log_key.name,
        "log_index": done.answer.get("log_index"),
        "lineage": done.answer.get("lineage"),
    }
