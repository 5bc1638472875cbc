"""Hotkeys from bittensor wallets; the private key stays inside ``bittensor`` and is never shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Unavailable, UsageError

if TYPE_CHECKING:
    from attest.keys.hotkey import Hotkey, WalletSigner

DEFAULT_FOLDER = Path("~/.bittensor/wallets")


def keypair(wallet: str, *, hotkey: str | None = None, folder: Path | None = None) -> Any:
    """The hotkey pair of a wallet, unlocked (bittensor asks for its password, or takes it from the environment).

    Args:
        wallet: Name of the wallet, or ``wallet/hotkey``.
        hotkey: Name of the hotkey where ``wallet`` does not say it.
        folder: Where wallets are; bittensor's own default when None.

    Raises:
        UsageError: The names make no sense.
        Unavailable: There is no such wallet, or it cannot be unlocked.
    """
    import bittensor
    from bittensor.keyfiles import KeyfileError

    place = str((folder or DEFAULT_FOLDER).expanduser())
    try:
        found = bittensor.Wallet(wallet, hotkey or "default", path=place)
    except ValueError as error:
        raise UsageError("not a wallet's name", where="--wallet", got=str(error)) from None
    try:
        return found.hotkey
    except (OSError, ValueError, RuntimeError, EOFError, KeyfileError) as error:
        raise Unavailable(
            "the wallet's hotkey cannot be used",
            where=f"{place}/{found.name}/hotkeys/{found.hotkey_str}",
            got=str(error) or "no password was given",
            remedy="Check --wallet and --wallet-path, or make one with `btcli wallet create`.",
        ) from None


def signer_of(pair: Any, *, scheme: str | None = None) -> WalletSigner:
    """Signs statements with a wallet's hotkey.

    Raises:
        UsageError: The key is of another scheme than the one asked for.
    """
    from attest.keys.hotkey import WalletSigner

    signer = WalletSigner(pair)
    if scheme is not None and scheme != signer.verifier.scheme:
        raise UsageError(
            "the wallet's hotkey has another scheme", where="--scheme", got=scheme, expected=str(signer.verifier.scheme)
        )
    return signer


def account(address: str, scheme: str | None) -> Hotkey:
    """An account whose private key is elsewhere; its scheme must be stated, for an address does not say it.

    Raises:
        UsageError: No scheme.
        InvalidKey: Not an address, or no honest key of that scheme.
    """
    from attest.keys.hotkey import Hotkey
    from attest.keys.interface import HOTKEY_SCHEMES, Scheme

    if scheme not in HOTKEY_SCHEMES:
        raise UsageError(
            "an address does not say its signature scheme", where="--scheme", got=scheme, expected="sr25519 or ed25519"
        )
    found = Hotkey(Scheme(scheme), address)
    found.verifier()
    return found
