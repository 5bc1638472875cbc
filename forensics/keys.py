"""Private keys under the home: made on first use, never shown, never in the database.

``service.pem`` is the service's Ed25519 key (its statements, its log), ``service.vkey`` the public key with the log's
name, ``bundle.pem`` a miner's P-256 key for model-signing bundles, and ``hints.key`` a secret that authenticates what
was measured the last time; as it is worth nothing elsewhere, it alone is never encrypted. With
``FORENSICS_KEY_PASSWORD`` the other files are encrypted; without it, as with an SSH host key, only their permissions
protect them, so files that others may read are refused. Two processes that start on one empty home agree on one key:
the file is linked into place, never replaced.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .errors import BadInput, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from attest.keys.ed25519 import Ed25519Signer
    from attest.keys.p256 import P256Signer
    from attest.log.note import NoteKey

    from .settings import Settings

SERVICE, SERVICE_PUBLIC, BUNDLE = "service.pem", "service.vkey", "bundle.pem"
HINTS: Final = "hints.key"
HINTS_BYTES: Final = 32
KEY_LIMIT: Final = 4096
Entropy = Callable[[int], bytes]


class Keys:
    """The key files of one home.

    Args:
        folder: Where they are.
        password: Encrypts what is made; None leaves it to the permissions.
        entropy: ``entropy(n)`` is n random bytes.
    """

    def __init__(self, folder: Path, *, password: bytes | None = None, entropy: Entropy = secrets.token_bytes) -> None:
        self._folder, self._password, self._entropy = folder, password, entropy

    @classmethod
    def of(cls, settings: Settings) -> Keys:
        """Those of the home that the settings name."""
        secret = settings.key_password.get_secret_value()
        return cls(settings.home / "keys", password=secret.encode() or None)

    def service(self) -> Ed25519Signer:
        """The service's key.

        Raises:
            InvalidKey: The file is damaged, or the password wrong.
            BadInput: Others may read the file.
            StoreUnavailable: It cannot be read or made.
        """
        from attest.keys import service

        pem = self._get(SERVICE, lambda: service.to_pem(self._entropy(32), password=self._password))
        return service.from_pem(pem, password=self._password)

    def service_public(self, *, origin: str = "") -> NoteKey:
        """The service's public key with its log's name; the name is fixed when the key is first used.

        Raises:
            UsageError: ``origin`` is another name than the one fixed.
        """
        from attest.log.note import NoteKey

        public = self.service().verifier.public_bytes
        name = origin or f"localhost/forensics/{public.hex()[:16]}"
        text = self._get(SERVICE_PUBLIC, lambda: f"{NoteKey(name, public)}\n".encode(), mode=0o644)
        key = NoteKey.parse(text.decode())
        if key.public != public:
            raise BadInput(
                "not the public half of the service's key",
                where=str(self._folder / SERVICE_PUBLIC),
                remedy="Restore both key files from one backup.",
            )
        if origin and key.name != origin:
            raise UsageError(
                "the log has another name, and a log keeps its name",
                where="setting origin",
                got=origin,
                expected=key.name,
            )
        return key

    def known_public(self) -> NoteKey | None:
        """The service's public key when this home has one; makes nothing."""
        from attest.log.note import NoteKey

        path = self._folder / SERVICE_PUBLIC
        return NoteKey.parse(_read(path, mode=0o644).decode()) if path.exists() else None

    def bundle(self) -> P256Signer:
        """The key that signs model-signing bundles.

        Raises:
            InvalidKey: The file is damaged, or the password wrong.
            BadInput: Others may read the file.
            StoreUnavailable: It cannot be read or made.
        """
        from attest.keys.p256 import N, P256Signer

        def make() -> bytes:
            scalar = int.from_bytes(self._entropy(48)) % (N - 1) + 1  # 128 bits more than N: no bias that matters
            return P256Signer.from_scalar(scalar).pem(password=self._password)

        return P256Signer.from_pem(self._get(BUNDLE, make), password=self._password)

    def hints(self) -> bytes:
        """The secret that authenticates hints; made on first use.

        Raises:
            BadInput: Others may read the file, or it is damaged.
            StoreUnavailable: It cannot be read or made.
        """
        secret = self._get(HINTS, lambda: self._entropy(HINTS_BYTES))
        if len(secret) != HINTS_BYTES:
            raise BadInput(
                "not a key for hints",
                where=str(self._folder / HINTS),
                got=f"{len(secret)} bytes",
                expected=f"{HINTS_BYTES} bytes",
                remedy="Delete it: a new one is made, and models are read again once.",
            )
        return secret

    def known_hints(self) -> bytes | None:
        """The secret when this home has one; makes nothing."""
        return self.hints() if (self._folder / HINTS).exists() else None

    def _get(self, name: str, make: Callable[[], bytes], *, mode: int = 0o600) -> bytes:
        path = self._folder / name
        if not path.exists():
            put_new(path, make(), mode)
        return _read(path, mode=mode)


def put_new(path: Path, data: bytes, mode: int) -> None:
    """Put a new file in place, unless somebody was faster; it is never half there.

    Raises:
        StoreUnavailable: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    except OSError as error:
        raise StoreUnavailable(
            "cannot write a key",
            where=str(path),
            got=error.strerror or str(error),
            remedy="Check the folder's permissions.",
        ) from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def _read(path: Path, *, mode: int) -> bytes:
    try:
        with path.open("rb") as file:
            now = os.fstat(file.fileno())
            if os.name == "posix" and mode == 0o600 and stat.S_IMODE(now.st_mode) & 0o077:
                raise BadInput(
                    "others may read this private key",
                    where=str(path),
                    got=oct(stat.S_IMODE(now.st_mode)),
                    expected=oct(mode),
                    remedy=f"chmod 600 {path}",
                )
            return file.read(KEY_LIMIT)
    except OSError as error:
        raise StoreUnavailable("cannot read a key", where=str(path), got=error.strerror or str(error)) from None
