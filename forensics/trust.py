"""Whose signatures count: keys given on the command line, keys pinned earlier, and this home's own.

A log is known by its name and key together. The first key seen for a name is pinned under the home; another one under
the same name is refused ever after, and somebody must look. What is given explicitly always counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from attest.errors import AttestError, InvalidSignature
from attest.keys.ed25519 import Ed25519Verifier
from attest.keys.hotkey import Hotkey
from attest.keys.interface import Scheme, Verifier
from attest.keys.p256 import P256Verifier
from attest.log.note import COSIGNATURE, NoteKey

from .errors import BadInput, StoreUnavailable, UsageError
from .forks import FOLDER, Forks
from .keys import Keys, put_new

if TYPE_CHECKING:
    from .settings import Settings

KEY_LIMIT = 64 << 10


@dataclass(frozen=True)
class Trusted:
    """Keys by what they are for.

    Args:
        logs: Keys of logs (and so of the services that run them).
        witnesses: Keys of witnesses.
        accounts: Keys that speak with authority in statements.
        bundles: Keys of model-signing bundles.
        forks: Evidence against logs; a key with two histories counts for nothing, whoever gave it.
    """

    logs: tuple[NoteKey, ...] = ()
    witnesses: tuple[NoteKey, ...] = ()
    accounts: tuple[Verifier, ...] = ()
    bundles: tuple[P256Verifier, ...] = ()
    forks: Forks | None = None

    def log(self, name: str) -> NoteKey:
        """The key of the log of this name.

        Raises:
            InvalidSignature: None is trusted.
            BadInput: This home holds evidence that it signed two histories.
        """
        for key in self.logs:
            if key.name == name:
                if self.forks is not None:
                    self.forks.check(key)
                return key
        raise InvalidSignature(
            "the log's key is not trusted here",
            where=name,
            expected=", ".join(key.name for key in self.logs) or "a pinned key",
            remedy="Get the key (name+id+base64) from somebody you believe and give it with --trust.",
        )

    @property
    def authorities(self) -> tuple[Verifier, ...]:
        """Everybody who may speak with authority: accounts, and services by their logs' keys unless they forked."""
        good = (key for key in self.logs if self.forks is None or not self.forks.against(key))
        return self.accounts + tuple(Ed25519Verifier(key.public) for key in good)


class Pins:
    """Keys of logs pinned under a home.

    Args:
        folder: Where they are.
        keys: The home's own keys, whose public half counts too.
        forks: Evidence against logs.
    """

    def __init__(self, folder: Path, keys: Keys | None = None, forks: Forks | None = None) -> None:
        self._folder, self._keys, self._forks = folder, keys, forks

    @classmethod
    def of(cls, settings: Settings) -> Pins:
        """Those of the home that the settings name."""
        return cls(settings.home / "trust", Keys.of(settings), Forks(settings.home / FOLDER))

    def all(self) -> tuple[NoteKey, ...]:
        """Every pinned key, and this home's own.

        Raises:
            BadInput: A pin is damaged.
        """
        own = self._keys.known_public() if self._keys is not None else None
        files = sorted(self._folder.glob("*.vkey")) if self._folder.is_dir() else []
        pinned = tuple(_parse_vkey(_read(file), str(file)) for file in files)
        return pinned if own is None else (own, *pinned)

    def pin(self, key: NoteKey) -> bool:
        """Pin a key; whether it is new.

        Raises:
            BadInput: Another key is pinned under this name, or this one signed two histories.
        """
        if self._forks is not None:
            self._forks.check(key)
        for known in self.all():
            if known.name == key.name:
                if known != key:
                    raise BadInput(
                        "the log answers with another key than the one pinned",
                        where=key.name,
                        got=key.id.hex(),
                        expected=known.id.hex(),
                        remedy=f"Find out why before you trust it; the pins are in {self._folder}.",
                    )
                return False
        name = hashlib.sha256(key.name.encode()).hexdigest()[:32]
        put_new(self._folder / f"{name}.vkey", f"{key}\n".encode(), 0o644)
        return True if key in self.all() else self.pin(key)  # another process may have pinned another one meanwhile

    def trusted(self, given: Iterable[str] = ()) -> Trusted:
        """Pinned keys and those given: a note key, ``ed25519:ADDRESS``, or a file with one of them or a PEM key.

        Raises:
            UsageError: One of ``given`` is none of these.
        """
        found = [_parse(text) for text in given]
        logs = [key for key in found if isinstance(key, NoteKey) and key.kind != COSIGNATURE]
        named = {key.name for key in logs}
        return Trusted(
            logs=(*logs, *(key for key in self.all() if key.name not in named)),
            witnesses=tuple(key for key in found if isinstance(key, NoteKey) and key.kind == COSIGNATURE),
            accounts=tuple(key for key in found if isinstance(key, Ed25519Verifier)),
            bundles=tuple(key for key in found if isinstance(key, P256Verifier)),
            forks=self._forks,
        )


def _parse(text: str) -> NoteKey | Ed25519Verifier | P256Verifier:
    path = Path(text).expanduser()
    whole = _read(path) if len(text) < 1024 and path.is_file() else text
    where = f"--trust {text[:80]}"
    try:
        if whole.lstrip().startswith("-----BEGIN"):
            return P256Verifier.from_pem(whole.encode())
        if whole.startswith(f"{Scheme.ED25519}:"):
            return Ed25519Verifier(Hotkey(Scheme.ED25519, whole.strip().partition(":")[2]).public_bytes)
        return NoteKey.parse(whole)
    except AttestError as error:
        raise UsageError(
            "not a key", where=where, got=error.what, expected="name+id+base64, ed25519:ADDRESS, or a file with a key"
        ) from None


def _parse_vkey(text: str, where: str) -> NoteKey:
    try:
        return NoteKey.parse(text)
    except AttestError as error:
        raise BadInput("a pinned key is damaged", where=where, got=str(error)) from None


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(KEY_LIMIT).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreUnavailable("cannot read a key", where=str(path), got=str(error)) from None
