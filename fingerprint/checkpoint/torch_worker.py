"""Runs in a process of its own: asks torch's weights-only loader where the tensors of a file lie.

``map_location="meta"`` and ``mmap=True`` allocate no storage; the offset of each storage in the file comes out instead
(torch/serialization.py, ``_checkpoint_offset``). The parent then maps the file itself and checks every range, so
nothing this process says is believed either. Started by path with ``python -I``; imports nothing of this project.

Input: one JSON line with ``paths``, ``memory``, ``seconds``, ``tensors`` and ``name_bytes``. Output: one JSON line,
``{"files": [[tensor, ...], ...]}`` or ``{"error": text}``.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from typing import Any

import torch

WRAPPERS = ("state_dict", "model_state_dict", "model", "module")
"""Keys under which trainers put the weights, beside optimiser state."""
_DEPTH = 6


def describe(path: str, *, tensors: int, name_bytes: int) -> list[dict[str, Any]]:
    """Every dense tensor of the file at ``path``: name, dtype, shape, stride, byte offset and storage size."""
    content = torch.load(path, weights_only=True, mmap=True, map_location="meta")
    if not isinstance(content, dict):
        raise ValueError(f"top level is {type(content).__name__}, not a dictionary of tensors")
    for key in WRAPPERS:
        inner = content.get(key)
        if isinstance(inner, dict) and any(isinstance(value, torch.Tensor) for value in inner.values()):
            content = inner
            break
    budget = [2 * tensors]
    return [_record(name, value, name_bytes) for name, value in _walk(content, "", _DEPTH, budget)]


def _walk(content: dict[Any, Any], prefix: str, depth: int, budget: list[int]) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of nested dictionaries under dotted names; a budget stops dictionaries that share dictionaries."""
    for key, value in content.items():
        budget[0] -= 1
        if budget[0] < 0:
            raise ValueError("too many entries")
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{key}", value
        elif isinstance(value, dict) and depth:
            yield from _walk(value, f"{prefix}{key}.", depth - 1, budget)


def _record(name: str, value: torch.Tensor, name_bytes: int) -> dict[str, Any]:
    if len(name) > name_bytes:
        raise ValueError(f"name of {len(name)} characters")
    if value.layout != torch.strided or value.is_conj() or value.is_neg() or type(value) not in _DENSE:
        raise ValueError(f"{name} is no dense tensor")
    storage = value.untyped_storage()
    begin = storage._checkpoint_offset
    if begin is None:
        raise ValueError(f"{name} has no place in the file")
    return {
        "name": name,
        "dtype": str(value.dtype),
        "shape": list(value.shape),
        "stride": list(value.stride()),
        "offset": begin + value.storage_offset() * value.element_size(),
        "storage": begin,
        "nbytes": int(storage.nbytes()),
    }


_DENSE = (torch.Tensor, torch.nn.Parameter)


def main() -> None:
    """Limit this process, read the order, answer it."""
    order = json.loads(sys.stdin.readline())
    with open("/proc/self/statm") as statm:
        address_space = int(statm.read().split()[0]) * resource.getpagesize()
    files = sum(order["sizes"])  # a map counts as address space, not as memory
    spent = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(spent.ru_utime + spent.ru_stime) + order["seconds"]
    for kind, bound in (
        (resource.RLIMIT_AS, address_space + files + order["memory"]),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (bound, bound))
    try:
        bounds = {"tensors": order["tensors"], "name_bytes": order["name_bytes"]}
        answer: dict[str, Any] = {"files": [describe(path, **bounds) for path in order["paths"]]}
    except Exception as error:  # whatever torch or a hostile pickle raises: the parent turns it into a refusal
        answer = {"error": f"{type(error).__name__}: {str(error)[:400]}"}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
