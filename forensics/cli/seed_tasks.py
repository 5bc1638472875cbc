"""``forensics seeds tasks``: an epoch's items as the tasks that their keys give."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import BadInput, Exit, Unavailable, UsageError
from .console import emit

if TYPE_CHECKING:
    from attest.seeds.tasks.task import Task

MAX_BYTES = 256 << 20
MAX_ITEMS = 1_000_000


def tasks(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="Items with their keys: what `GET /v1/epochs/N/seeds` or `seeds verify --items --json` gives, "
            "or JSON lines of environment and key.",
        ),
    ] = None,
    seed: Annotated[str | None, typer.Option(metavar="HEX", help="An epoch's seed, instead of a file.")] = None,
    items: Annotated[
        list[str] | None, typer.Option(metavar="NAME=COUNT", help="With --seed: how many of each; may be repeated.")
    ] = None,
    environment: Annotated[str | None, typer.Option(help="Only this environment.")] = None,
    solutions: Annotated[
        bool, typer.Option("--solutions", help="Also what the checker needs: not for models.")
    ] = False,
    digest: Annotated[bool, typer.Option("--digest", help="Only the generators' digest, for `seeds commit`.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a line each.")] = False,
) -> int:
    """Print the tasks of an epoch, one JSON object a line.

    The environments are abduction, deduction, lists and sat, with /1 to /5 for one level only. Others have no
    generator here and are passed over.
    """
    from attest.seeds.tasks import registry

    if digest:
        emit({"generator": registry.generator_digest()}) if json else print(registry.generator_digest())
        return Exit.CLEAN
    if (file is None) == (seed is None):
        raise UsageError("either a file or a seed", where="seeds tasks", remedy="See `forensics seeds tasks --help`.")
    listed = _from_file(file) if file is not None else _from_seed(seed or "", items or [])
    kept = (item for item in listed if environment is None or item["environment"] == environment)
    made = (_document(item, registry.make(item["environment"], item["key"]), solutions) for item in _known(kept))
    if json:
        emit({"generator": registry.generator_digest(), "tasks": list(made)})
        return Exit.CLEAN
    for document in made:
        print(json_module.dumps(document, ensure_ascii=True))
    return Exit.CLEAN


def _document(item: dict[str, Any], task: Task, solutions: bool) -> dict[str, Any]:
    shown = {name: item[name] for name in ("id", "index") if item.get(name) is not None}
    shown |= {"environment": task.environment, "level": task.level, "digest": task.digest(), "prompt": task.prompt}
    shown["environment"] = item["environment"]
    return shown | ({"facts": dict(task.facts), "solution": task.solution} if solutions else {})


def _known(items: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    from attest.seeds.tasks.registry import GENERATORS

    from .console import say

    passed: dict[str, int] = {}
    for item in items:
        if item["environment"].partition("/")[0] in GENERATORS:
            yield item
        else:
            passed[item["environment"]] = passed.get(item["environment"], 0) + 1
    for name, number in passed.items():
        say(f"note: {number} items of {name} passed over: it has no generator")


def _from_seed(seed: str, items: list[str]) -> Iterator[dict[str, Any]]:
    from attest.seeds.derive import item_key

    key = _hex(seed)
    if key is None:
        raise UsageError("not a seed", where="--seed", expected="64 hex digits")
    if not items:
        raise UsageError("how many of what", where="--items", expected="NAME=COUNT")
    wanted = [_amount(text) for text in items]
    if len({name for name, _ in wanted}) != len(wanted):
        raise UsageError("an environment twice", where="--items", expected="every name once")
    return ({"environment": name, "index": i, "key": item_key(key, name, i)} for name, n in wanted for i in range(n))


def _amount(text: str) -> tuple[str, int]:
    from attest.errors import MalformedInput
    from attest.seeds.derive import SIZE
    from attest.seeds.tasks import registry

    name, _, count = text.partition("=")
    if not (count.isascii() and count.isdecimal()) or len(count) > 7 or not 0 < int(count) <= MAX_ITEMS:
        expected = f"NAME=COUNT, 1 to {MAX_ITEMS}"
        raise UsageError("not a number of items", where="--items", got=text[:80], expected=expected)
    try:
        registry.make(name, bytes(SIZE))  # only to ask whether there is such an environment
    except MalformedInput as error:
        raise UsageError(error.what, where="--items", got=name[:80], expected=error.expected) from None
    return name, int(count)


def _from_file(path: Path) -> Iterator[dict[str, Any]]:
    for place, entry in enumerate(_entries(path), start=1):
        where = f"{path}: item {place}"
        if not isinstance(entry, dict) or not isinstance(entry.get("environment"), str):
            raise BadInput("not an item", where=where, expected="an object with environment and key")
        key = _hex(entry.get("key"))
        if key is None:
            raise BadInput("not an item's key", where=where, expected="64 hex digits")
        if not isinstance(entry.get("id"), str | None) or not isinstance(entry.get("index"), int | None):
            raise BadInput("not an item", where=where, expected="a text as id, a whole number as index, or neither")
        yield {**{n: entry.get(n) for n in ("id", "index")}, "environment": entry["environment"], "key": key}


def _entries(path: Path) -> list[Any]:
    try:
        if path.exists() and not path.is_file():
            raise BadInput("not a file", where=str(path), expected="JSON")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise BadInput("file is too large", where=str(path), expected=f"at most {MAX_BYTES} bytes")
        text = data.decode()
    except OSError as error:
        raise Unavailable("cannot read", where=str(path), got=error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise BadInput("not UTF-8", where=str(path), expected="JSON") from None
    found = _parsed(text)
    if isinstance(found, dict) and "items" in found:
        found = found["items"]
    elif not isinstance(found, list):
        found = [
            _parsed(line, where=f"{path}: line {n}") for n, line in enumerate(text.splitlines(), 1) if line.strip()
        ]
    if not isinstance(found, list) or len(found) > MAX_ITEMS:
        raise BadInput("no list of items", where=str(path), expected=f"at most {MAX_ITEMS} items")
    return found


def _parsed(text: str, where: str = "") -> Any:
    """The document; without ``where``, None when it is none, for then it may be JSON lines."""
    try:
        return json_module.loads(text)
    except (ValueError, RecursionError) as error:
        if where:
            raise BadInput("not JSON", where=where, got=str(error)[:100]) from None
        return None


def _hex(text: object) -> bytes | None:
    if not isinstance(text, str) or len(text) != 64:
        return None
    try:
        return bytes.fromhex(text) if text.isalnum() else None
    except ValueError:
        return None
