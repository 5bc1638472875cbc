"""Where everything lives and how it is reached: flag > environment ``FORENSICS_`` > TOML > default.

All state lives under one folder, ``FORENSICS_HOME``; a database or an object store elsewhere is an explicit choice.
The TOML file is ``FORENSICS_CONFIG`` or ``config.toml`` in the home.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from .errors import BadInput, UsageError

ENV_PREFIX = "FORENSICS_"
CONFIG_LIMIT = 1 << 20  # bytes; a settings file is a page of text


class Settings(BaseSettings):
    """Settings of every command.

    Attributes:
        home: Folder that holds all state.
        database: SQLAlchemy URL; empty means SQLite in the home. Secret, for it may hold a password.
        blobs: fsspec URL of the content-addressed store; empty means a folder in the home.
        busy_seconds: How long a writer waits for another one.
        candidates: How many known models the search proposes to ``identify``.
        network: Name of the chain; only ``finney`` has its genesis hash built in.
        genesis: Genesis hash of the chain, ``0x`` and 64 hex digits; empty means the network's.
        netuid: The only subnet whose statements the service takes; any when not set.
        origin: Name of the service's log, drawn from its key when the key is made; cannot be changed afterwards.
        key_password: Encrypts the key files under ``keys`` in the home; at least 8 characters. Secret.
        admins: Hotkeys that may do everything, separated by commas.
        operators: Hotkeys that may hand in others' submissions.
        reviewers: Hotkeys that may decide cases.
        address_rate: Requests a second from one address, in the long run and for each process; 0 for no limit. Reads of
            verdicts are not counted.
        hotkey_rate: Signed requests a second of one hotkey, likewise.
        trusted_proxies: Addresses or networks, separated by commas, whose ``X-Forwarded-For`` is believed.
        hooks_loopback: Whether webhooks may go to this machine, and without TLS: for demos and tests.
        log_level: ``debug``, ``info``, ``warning`` or ``error``.
        seed_key: Seals the hidden seeds at rest, 64 hex digits. Secret; keep it apart from the database.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    home: Path = Field(default_factory=lambda: default_home())
    database: SecretStr = SecretStr("")
    blobs: str = ""
    busy_seconds: float = Field(default=30.0, gt=0, le=3600)
    candidates: int = Field(default=16, ge=1, le=1000)
    network: str = Field(default="finney", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    genesis: str = Field(default="", pattern=r"^(0x[0-9a-f]{64})?$")
    netuid: int | None = Field(default=None, ge=0, le=0xFFFF)
    origin: str = Field(default="", pattern=r"^[!-*,-~]{0,200}$")
    key_password: SecretStr = SecretStr("")
    seed_key: SecretStr = SecretStr("")
    admins: str = Field(default="", max_length=100_000)
    operators: str = Field(default="", max_length=100_000)
    reviewers: str = Field(default="", max_length=100_000)
    address_rate: float = Field(default=50.0, ge=0, le=1e6)
    hotkey_rate: float = Field(default=5.0, ge=0, le=1e6)
    hooks_loopback: bool = False
    log_level: str = Field(default="info", pattern=r"^(debug|info|warning|error)$")
    trusted_proxies: str = Field(default="", max_length=10_000)

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return Path(os.path.abspath(home.expanduser()))

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL with the driver this package ships."""
        url = self.database.get_secret_value()
        if not url:
            return f"sqlite:///{self.home / 'forensics.db'}"
        for plain in ("postgresql://", "postgres://"):
            if url.startswith(plain):
                return "postgresql+psycopg://" + url.removeprefix(plain)
        return url

    @property
    def blobs_url(self) -> str:
        """Fsspec URL of the blob store."""
        return self.blobs or (self.home / "blobs").as_uri()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then environment, then the TOML file that the first two point to."""
        flags, env = init_settings(), EnvSettingsSource(settings_cls)()
        home = Path(flags.get("home") or env.get("home") or default_home()).expanduser()
        toml = InitSettingsSource(settings_cls, init_kwargs=_toml(home))
        return (init_settings, env_settings, toml)


def load(**flags: Any) -> Settings:
    """Settings from flags (None means not given), environment, TOML and defaults.

    Raises:
        UsageError: A flag or variable is out of range or unknown.
        BadInput: The TOML file cannot be read.
    """
    try:
        return Settings(**{k: v for k, v in flags.items() if v is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        raise UsageError(first["msg"], where=f"setting {name}", remedy="See docs/cli.md for the settings.") from None


def default_home() -> Path:
    """The platform's folder for application data."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "forensics"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "forensics"
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share") / "forensics"


def _toml(home: Path) -> dict[str, Any]:
    explicit = os.environ.get("FORENSICS_CONFIG")
    path = Path(explicit).expanduser() if explicit else home / "config.toml"
    if not explicit and not path.exists():
        return {}
    try:
        with path.open("rb") as file:
            raw = file.read(CONFIG_LIMIT + 1)
        if len(raw) > CONFIG_LIMIT:
            raise BadInput("settings file too large", where=str(path), expected=f"at most {CONFIG_LIMIT} bytes")
        return tomllib.loads(raw.decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput("cannot read settings", where=str(path), got=str(error)) from None
