"""``forensics scan``: weights in, fingerprint out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import Exit
from ..text import printable
from . import sources
from .console import emit
from .home import Home
from .output import check_file, write_file

if TYPE_CHECKING:
    from fingerprint.fingerprint import Fingerprint


def scan(
    context: typer.Context,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Checkpoint: a folder, a file, or owner/name@commit of the hub.")
    ],
    out: Annotated[Path | None, typer.Option(help="Write the fingerprint to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Fingerprint a checkpoint."""
    if out is not None:
        check_file(out, option="--out")
    began = time.perf_counter()
    with sources.checkpoint(sources.need_checkpoint(path, Home(context.obj))) as weights:
        fingerprint = sources.scanned(weights)
    seconds = time.perf_counter() - began
    size = _save(fingerprint, out) if out is not None else None
    document = _document(fingerprint) | {"seconds": round(seconds, 3)}
    if out is not None:
        document |= {"out": str(out), "out_bytes": size}
    if json:
        emit(document)
    else:
        _print(document)
    return Exit.CLEAN


def _save(fingerprint: Fingerprint, out: Path) -> int:
    from fingerprint.file import dumps

    data = dumps(fingerprint)
    write_file(out, data, option="--out")
    return len(data)


def _document(fingerprint: Fingerprint) -> dict[str, Any]:
    meta = fingerprint.meta
    return {
        "content_root": fingerprint.content_root,
        "nameless_root": fingerprint.nameless_root,
        "value_root": fingerprint.value_root,
        "nameless_value_root": fingerprint.nameless_value_root,
        "algorithm": fingerprint.algorithm,
        "key": meta.key_id,
        "family": meta.family,
        "format": meta.format,
        "parameters": fingerprint.parameters,
        "tensors": len(fingerprint.tensors),
        "layers": meta.dims.layers,
        "files": [{"name": name, "bytes": size} for name, size in meta.files],
        "transforms": list(meta.transforms),
        "notes": list(meta.notes),
    }


def _print(document: dict[str, Any]) -> None:
    for key, value in document.items():
        if key in ("algorithm", "notes") or value == []:
            continue
        if key == "files":
            value = ", ".join(f"{f['name']} ({f['bytes']:,} bytes)" for f in value)
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        print(printable(f"{key.replace('_', ' '):<20}{value:,}" if isinstance(value, int) else
                        f"{key.replace('_', ' '):<20}{value}"))  # fmt: skip
