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
        commit_rules: What a competition asks of commitments, comma-separated: `affine`, or forms and rules by name.
        hub: Where repositories come from: the hub's URL, or a `file:` URL of a folder `owner/name/revision`.
        hub_token: Token for gated repositories; sent to the hub alone. Secret.
        hub_total_bytes: Largest repository that is fetched.
        hub_file_bytes: Largest file that is fetched.
        hub_keep_free: Bytes of disk that fetching leaves free.
        hub_pool_bytes: Bytes of weights that are kept for the next repository that has them; 0 keeps none.
        chain: What a worker follows: a node (finney, test, local, ws:// or wss://) or a recorded subnet; empty: none.
        chain_seconds: How often it looks.
        wallet: `NAME/HOTKEY` of the wallet whose hotkey anchors the log; it is not anchored when empty.
        wallet_path: Folder of wallets; bittensor's own when not set.
        beacons: drand endpoints, comma-separated, or a file of signatures, for moving epochs on; empty: public ones.
        competition: Name of the competition that snapshots and statements speak of.
        policy: Policy file; the one that is shipped when not set.
        concurrency: Submissions that a worker has under way at once.
        per_host: Submissions that are fetched from one host at once, over all workers.
        reader_memory: Bytes of memory for reading one checkpoint.
        reader_seconds: Time for reading one checkpoint.
        keep_checkpoints: Bytes of fetched checkpoints that are kept, so that comparisons can go into weights.
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
        backup_password: Seals the private keys in a backup; at least 12 characters. Secret.
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
    commit_rules: str = Field(default="", max_length=200)
    hub: str = Field(default="https://huggingface.co", pattern=r"^(https?|file)://[!-~]{0,500}$")
    hub_token: SecretStr = SecretStr("")
    hub_total_bytes: int = Field(default=200 << 30, ge=1)
    hub_file_bytes: int = Field(default=60 << 30, ge=1)
    hub_keep_free: int = Field(default=2 << 30, ge=0)
    hub_pool_bytes: int = Field(default=50 << 30, ge=0)
    chain: str = Field(default="", max_length=500)
    chain_seconds: float = Field(default=3.0, gt=0, le=3600)
    wallet: str = Field(default="", pattern=r"^([^/]{1,100}/[^/]{1,100})?$")
    wallet_path: Path | None = None
    beacons: str = Field(default="", max_length=2000)
    competition: str = Field(default="default", pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    policy: Path | None = None
    concurrency: int = Field(default=2, ge=1, le=256)
    per_host: int = Field(default=4, ge=1, le=256)
    reader_memory: int = Field(default=16 << 30, ge=256 << 20)
    reader_seconds: float = Field(default=3600.0, gt=0)
    keep_checkpoints: int = Field(default=100 << 30, ge=0)
    netuid: int | None = Field(default=None, ge=0, le=0xFFFF)
    origin: str = Field(default="", pattern=r"^[!-*,-~]{0,200}$")
    key_password: SecretStr = SecretStr("")
    seed_key: SecretStr = SecretStr("")
    backup_password: SecretStr = SecretStr("")
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
