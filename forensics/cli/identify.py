"""``forensics identify``: the nearest known models, verified."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fingerprint.errors import FingerprintError

from ..errors import Exit
from ..known import address
from ..known.claim import Claim, KnownModel, Role
from ..text import printable
from . import sources
from .compare import DepthOption, save_evidence
from .console import emit, say
from .home import Home
from .known import model_document
from .output import check_file

if TYPE_CHECKING:
    from fingerprint.compare import Source

    from ..known.identify import Identification, Match
    from .sources import Opened


def identify(
    context: typer.Context,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Checkpoint or fingerprint file.")],
    top: Annotated[int, typer.Option(min=1, max=100, help="How many known models to show.")] = 5,
    depth: Annotated[
        DepthOption | None, typer.Option(help="Fingerprints alone, or also weights (default where at hand).")
    ] = None,
    hotkey: Annotated[str | None, typer.Option(help="Whose the candidate is: own claims accuse nobody.")] = None,
    block: Annotated[int | None, typer.Option(help="Block of the candidate's claim: later ones accuse nobody.")] = None,
    extrinsic: Annotated[int | None, typer.Option(help="Index of the extrinsic in that block.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    evidence: Annotated[Path | None, typer.Option(help="Write an evidence bundle of the best match.")] = None,
) -> int:
    """Say which known model PATH is, or comes from.

    Exits 1 when it is a copy of somebody's earlier work.
    """
    if evidence is not None:
        check_file(evidence, option="--evidence")
    own = address.normalise(hotkey)[0] if hotkey is not None else None
    claim = Claim(Role.SUBMISSION, hotkey=own, block=block, extrinsic=extrinsic).checked()
    home = Home(context.obj)
    began = time.perf_counter()
    with ExitStack() as stack:
        home.engine  # noqa: B018 - a database that cannot be used should not cost a scan
        candidate = stack.enter_context(sources.opened(path, home))
        found = _identify(candidate, home, stack, top=top, depth=depth, claim=claim if (own or block) else None)
        seconds = time.perf_counter() - began
        for line in found.skipped:
            say(f"note: skipped {line}")
        if evidence is not None and found.best is not None:
            save_evidence(found.best.comparison, found.best.inputs, evidence)
        if json:
            emit(document(found, candidate, top=top) | {"seconds": round(seconds, 3)})
        else:
            _print(found, candidate, home, top=top, seconds=seconds)
    return Exit.FINDING if found.finding else Exit.CLEAN


def _identify(
    candidate: Opened, home: Home, stack: ExitStack, *, top: int, depth: DepthOption | None, claim: Claim | None
) -> Identification:
    import fingerprint.compare as comparing

    from ..known.identify import NEAREST, Identifier

    def weights(model: KnownModel) -> Source | None:
        return _weights(model, stack)

    identifier = Identifier(
        home.registry,
        home.index,
        calibration=comparing.load_calibration(),
        open_weights=None if depth is DepthOption.SKETCH else weights,
    )
    limit = max(home.settings.candidates, top)
    return identifier.identify(candidate.source(), limit=limit, nearest=max(NEAREST, top), claim=claim)


def _weights(model: KnownModel, stack: ExitStack) -> Source | None:
    """The registered weights of a model, when they are still there and still the same."""
    from fingerprint.compare import Source

    paths = [Path(s.claim.path) for s in model.submissions if s.active and s.claim.path]
    for path in paths:
        try:
            if not path.exists():
                continue
            checkpoint = stack.enter_context(sources.checkpoint(path))
            fingerprint = sources.scanned(checkpoint)
        except FingerprintError as error:
            say(f"note: weights of a known model cannot be read: {error}")
            continue
        if fingerprint.content_root == model.content_root:
            return Source(fingerprint, checkpoint)
        say(f"note: {path} is no longer what was registered; its fingerprint is used instead")
    return None


def document(found: Identification, candidate: Opened, *, top: int) -> dict[str, Any]:
    """The JSON of an identification: the best match as ``compare --json`` has it, and all matches."""
    best = found.best
    head = best.comparison.as_json() if best is not None else _nothing(candidate)
    return head | {
        "finding": found.finding,
        "false_accusation_probability": float(f"{found.false_accusation_probability:.6g}"),
        "of": model_document(best.model) if best is not None and best.comparison.relation != "independent" else None,
        "matches": [_match(m) for m in found.matches[:top]],
        "searched": found.searched,
        "proposed": found.proposed,
        "search_seconds": round(found.search_seconds, 4),
        "skipped": list(found.skipped),
    }


def _match(match: Match) -> dict[str, Any]:
    return {
        "model": model_document(match.model),
        "distance": float(f"{match.distance:.6g}"),
        "earlier": match.counts,
        "comparison": match.comparison.as_json(),
    }


def _nothing(candidate: Opened) -> dict[str, Any]:
    """The document when there was nothing to compare with."""
    return {
        "relation": "inconclusive",
        "copy": False,
        "confidence": 0.0,
        "parents": [],
        "transforms": [],
        "coverage": 0.0,
        "per_layer": [],
        "candidate": candidate.fingerprint.content_root,
        "reference": None,
        "algorithm": candidate.fingerprint.algorithm,
        "why": "No known model could be compared with.",
    }


def _print(found: Identification, candidate: Opened, home: Home, *, top: int, seconds: float) -> None:
    from rich.console import Console
    from rich.text import Text

    from ..report import Named, print_lines, render, summary

    best = found.best
    if best is None:
        print(printable(f"no known model could be compared with {candidate.text} ({found.searched} are known)"))
        return
    parents = home.registry.by_root([p.digest for p in best.comparison.parents])
    lines = render(
        best.comparison,
        candidate=Named(candidate.text, candidate.fingerprint.content_root, candidate.fingerprint.parameters),
        reference=Named(_label(best.model), best.model.content_root, best.model.parameters, best.model),
        known=parents,
        seconds=seconds,
    )
    if best.comparison.copy and not found.finding:
        lines.insert(1, Text("No finding: the claims to it are the candidate's own, or not shown to be earlier."))
    others = [summary(m.comparison, m.model, m.distance) for m in found.matches[1:top]]
    if others:
        lines += [Text(), Text("also near", style="bold"), *others]
    if best.comparison.copy:
        compared, worst = len(found.matches), found.false_accusation_probability
        lines.append(
            Text(f"{compared} models were compared, so the false-accusation probability is {worst:.2g} in all")
        )
    lines.append(Text(f"{found.proposed} of {found.searched} known models proposed in {found.search_seconds:.3f} s"))
    print_lines(lines, Console(file=sys.stdout))


def _label(model: KnownModel) -> str:
    first = model.earliest
    return (first.claim.label or first.claim.repo or "a known model") if first is not None else "a known model"
