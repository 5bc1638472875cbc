"""Which generators there are, a task by its item key, and the digest of all of it.

The digest is SHA-256 over the source of everything that decides what a task is. It goes into the seed's context, so a
generator that is changed after the commitment gives another seed, and everybody can see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

from attest.errors import MalformedInput
from attest.seeds.derive import lp
from attest.seeds.draw import Draw

from .reasoning import Abduction, Deduction, Lists
from .sat import Sat
from .task import LEVELS, Generator, Task, Verdict

GENERATORS: Final[Mapping[str, Generator]] = MappingProxyType(
    {generator.name: generator for generator in (Abduction(), Deduction(), Lists(), Sat())}
)
_DOMAIN: Final = b"integrity/seed/v1/generator"


def make(environment: str, key: bytes) -> Task:
    """The task of an item.

    Args:
        environment: A generator's name, or ``name/level``; without a level it is drawn from the key.
        key: The item's key, 32 bytes.

    Raises:
        MalformedInput: No such environment or level.
    """
    generator, level = _parts(environment)
    draw = Draw(key)
    return generator.make(draw.fork("task"), level or draw.fork("level").choice(LEVELS))


def check(task: Task, answer: str) -> Verdict:
    """What a model's answer to a task is worth."""
    return _parts(task.environment)[0].check(task, answer)


def generator_digest() -> str:
    """``sha256:`` and 64 hex digits over the generators' source, line ends made alike."""
    here = Path(__file__).resolve().parent
    files = [*sorted(here.glob("*.py"), key=lambda path: path.name), here.parent / "derive.py", here.parent / "draw.py"]
    whole = sha256(lp(_DOMAIN))
    for path in files:
        name = path.relative_to(here.parent).as_posix()
        whole.update(lp(name.encode()) + lp(path.read_bytes().replace(b"\r\n", b"\n")))
    return "sha256:" + whole.hexdigest()


def _parts(environment: str) -> tuple[Generator, int]:
    name, slash, level = environment.partition("/")
    levels = [str(known) for known in LEVELS]
    if name not in GENERATORS or (slash and level not in levels):
        raise MalformedInput(
            "no such environment",
            where="environment",
            got=environment,
            expected=" or ".join(GENERATORS) + ", with /1 to /5 for a level",
        )
    return GENERATORS[name], int(level or 0)
