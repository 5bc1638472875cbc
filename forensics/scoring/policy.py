"""The policy of weights: a TOML file, read strictly, named by the digest of what it says.

A misspelt key is refused, not ignored: a policy that silently means its default is worse than none. The digest is
over the values, so comments and order do not change it.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from ..errors import BadInput, Unavailable

MAX_BYTES: Final = 1 << 20
MAX_NAME: Final = 200
RULES: Final = ("winner-takes-all", "decayed", "proportional")
UNJUDGED: Final = ("together", "apart")
WITHHELD: Final = ("burn", "share")


@dataclass(frozen=True)
class EnvironmentRule:
    """How one environment is read.

    Args:
        lower_is_better: Tokens, seconds, losses.
        range: Bounds of a single score; the error of a bare mean is bounded with it.
        min_effect: Differences below this are none.
        ignore: Shown, not compared.
    """

    lower_is_better: bool = False
    range: tuple[float, float] | None = None
    min_effect: float = 0.0
    ignore: bool = False


@dataclass(frozen=True)
class Policy:
    """What is done with results.

    Args:
        name: Of the policy.
        version: Raised by whoever changes it.
        alpha: Chance that all copies of one lineage together take anything.
        worse_alpha: Chance, for each environment, of taking an equal for worse.
        min_overlap: Share of the earlier model's items that must be common.
        unjudged: Whether models without lineage share one alpha.
        environments: Rules of environments that have any.
        rule: How the front is paid.
        places: How many are paid.
        decay: Each place gets so much of the one before it.
        temperature: Exponent of scores under ``proportional`` is its inverse.
        withheld: What becomes of what multipliers take.
        burn_uid: Whom burned weight is set to.
    """

    name: str
    version: int
    alpha: float
    worse_alpha: float
    min_overlap: float
    unjudged: str
    rule: str
    places: int
    decay: float
    temperature: float
    withheld: str
    burn_uid: int
    environments: Mapping[str, EnvironmentRule] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """``sha256:`` over all values, numbers as their shortest decimal text."""
        said = json.dumps(_texts(asdict(self)), sort_keys=True, separators=(",", ":"))
        return "sha256:" + sha256(said.encode()).hexdigest()

    def environment(self, name: str) -> EnvironmentRule:
        """The rule of an environment."""
        return self.environments.get(name, _PLAIN)


_PLAIN: Final = EnvironmentRule()


def default() -> Policy:
    """The policy that comes with this version."""
    return parse(files(__package__).joinpath("default.toml").read_text(), where="default policy")


def load(path: Path | None) -> Policy:
    """Read a policy file; the default one for None.

    Raises:
        Unavailable: It cannot be read.
        BadInput: It is not a policy.
    """
    if path is None:
        return default()
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unavailable("cannot read the policy", where=str(path), got=error.strerror or str(error)) from None
    if len(raw) > MAX_BYTES:
        raise BadInput("the policy is too large", where=str(path), expected=f"at most {MAX_BYTES} bytes")
    try:
        return parse(raw.decode(), where=str(path))
    except UnicodeDecodeError:
        raise BadInput("not UTF-8", where=str(path)) from None


def parse(text: str, *, where: str) -> Policy:
    """Read a policy from TOML.

    Raises:
        BadInput: Not TOML, an unknown or missing key, or a value out of its bounds.
    """
    try:
        said = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput("not TOML", where=where, got=str(error)) from None
    top = _Section(said, where)
    pareto, weights, burn = (top.section(name) for name in ("pareto", "weights", "burn"))
    policy = Policy(
        name=top.text("name"),
        version=top.integer("version", 0, 1 << 53),
        alpha=pareto.number("alpha", 1e-12, 0.5),
        worse_alpha=pareto.number("worse_alpha", 1e-12, 0.5),
        min_overlap=pareto.number("min_overlap", 0.01, 1.0),
        unjudged=pareto.choice("unjudged", UNJUDGED),
        rule=weights.choice("rule", RULES),
        places=weights.integer("places", 1, 65_535),
        decay=weights.number("decay", 0.0, 1.0),
        temperature=weights.number("temperature", 0.01, 100.0),
        withheld=burn.choice("withheld", WITHHELD),
        burn_uid=burn.integer("uid", 0, 65_535),
        environments=_environments(top),
    )
    for section in (top, pareto, weights, burn):
        section.done()
    return policy


def _environments(top: _Section) -> dict[str, EnvironmentRule]:
    found = top.section("environments", optional=True)
    rules = {}
    for name in list(found.said):
        rule = found.section(name)
        rules[name] = EnvironmentRule(
            lower_is_better=rule.flag("lower_is_better"),
            range=rule.bounds("range"),
            min_effect=rule.number("min_effect", 0.0, 1e300, default=0.0),
            ignore=rule.flag("ignore"),
        )
        rule.done()
    return rules


class _Section:
    """One table of the file; what is not asked for is refused at the end."""

    def __init__(self, said: dict[str, Any], where: str) -> None:
        self.said, self._where = dict(said), where

    def section(self, name: str, *, optional: bool = False) -> _Section:
        found = self.said.pop(name, {} if optional else None)
        if not isinstance(found, dict):
            raise self._wrong(name, found, "a table")
        return _Section(found, f"{self._where}: {name}")

    def text(self, name: str) -> str:
        value = self.said.pop(name, None)
        if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME or not value.isprintable():
            raise self._wrong(name, value, "a name")
        return value

    def choice(self, name: str, words: tuple[str, ...]) -> str:
        value = self.said.pop(name, None)
        if value not in words:
            raise self._wrong(name, value, " | ".join(words))
        return str(value)

    def integer(self, name: str, low: int, high: int) -> int:
        value = self.said.pop(name, None)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self._wrong(name, value, f"a whole number in {low}..{high}")
        return value

    def number(self, name: str, low: float, high: float, *, default: float | None = None) -> float:
        value = self.said.pop(name, default)
        if not _is_number(value) or not low <= value <= high:
            raise self._wrong(name, value, f"a number in {low:g}..{high:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.said.pop(name, False)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def bounds(self, name: str) -> tuple[float, float] | None:
        value = self.said.pop(name, None)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != 2 or not all(map(_is_number, value)) or value[0] >= value[1]:
            raise self._wrong(name, value, "[low, high]")
        return float(value[0]), float(value[1])

    def done(self) -> None:
        if self.said:
            raise BadInput("an unknown key", where=self._where, got=next(iter(self.said)))

    def _wrong(self, name: str, value: object, expected: str) -> BadInput:
        got = "nothing" if value is None else repr(value)[:80]
        return BadInput(f"{name} is missing or wrong", where=self._where, got=got, expected=expected)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _texts(value: Any) -> Any:
    """Floats as text, so that the digest does not depend on how a JSON library writes them."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {key: _texts(inner) for key, inner in value.items()}
    return [_texts(inner) for inner in value] if isinstance(value, list | tuple) else value
