"""Findings out of reports, each with its evidence document and what speaks for the subject.

- ``overfit.exposed``: the miner does better on exposed items than on fresh ones of the same difficulty.
- ``overfit.leak``: a validator's tracers became known.
- ``overfit.tracer``: a miner knew the tracers of a named validator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from ..evidence import Document, Exculpation, Finding, Kind, Party, decimal, digest_of
from ..evidence.finding import log10_capped
from .report import DETECTOR, INTERVAL, Exposure, MinerReport, Status
from .results import NOBODY, Results
from .tracer import Told, Traced

SMALL = 0.02
"""A lift whose interval reaches below this changes few rankings."""
TRACER_NULL = "permutation/tracers:lot,strata=epoch+environment,sampled"


def findings_of(
    results: Results,
    miners: Sequence[MinerReport],
    validators: Sequence[Traced],
    *,
    digest: str,
    exposure: Exposure,
    level: float,
) -> tuple[tuple[Finding, ...], Mapping[str, Document]]:
    """Findings of flagged miners and named validators, and evidence documents by digest."""
    base = {"detector": DETECTOR, "results": digest, "exposure": exposure.value, "level": decimal(level)}
    evidence: dict[str, Document] = {}
    found = []
    for miner in miners:
        if miner.status is Status.FLAGGED:
            document = {**base, **_document(results, miner)}
            evidence[digest_of(document)] = document
            found.append(_exposed(results, miner, miners, exposure, digest_of(document)))
    for traced in validators:
        if traced.named:
            document = {**base, **_tracer_document(traced)}
            evidence[digest_of(document)] = document
            found.append(_leak(traced, digest_of(document)))
            found += [_informed(traced, told, digest_of(document)) for told in traced.told if told.named]
    return tuple(found), evidence


def _exposed(
    results: Results, miner: MinerReport, miners: Sequence[MinerReport], exposure: Exposure, evidence: str
) -> Finding:
    measured: dict[str, float | int | str] = {
        "interval_level": INTERVAL,
        "fresh_items": sum(f.items for f in miner.fresh),
        **{f"fresh_score.{f.environment}": f.score for f in miner.fresh},
    }
    if miner.lift is not None and miner.interval is not None:
        measured |= {"lift": miner.lift, "lift_low": miner.interval[0], "lift_high": miner.interval[1]}
    if miner.fresh_score is not None:
        measured["fresh_score"] = miner.fresh_score
    if miner.q is not None:
        measured["q_value"] = miner.q
    return Finding(
        detector=DETECTOR,
        code="overfit.exposed",
        subject=Party(Kind.HOTKEY, miner.hotkey),
        object=None,
        log10_likelihood_ratio=log10_capped(miner.log_e),
        p_value=max(miner.p or 1.0, 1e-300),
        null=miner.null,
        evidence=evidence,
        measured=measured,
        exculpatory=tuple(_exculpations(results, miner, miners, exposure)),
    )


def _exculpations(
    results: Results, miner: MinerReport, miners: Sequence[MinerReport], exposure: Exposure
) -> Iterator[Exculpation]:
    if exposure is not Exposure.RANDOMISED:
        yield Exculpation(
            "not_randomised",
            "exposure was not drawn by lot: open training on public items of the same kind shows the same lift",
        )
    if miner.interval is not None and miner.interval[0] < SMALL:
        yield Exculpation("small_lift", f"the interval reaches down to a lift of {miner.interval[0]:.3f}")
    clean = [name for name, (lift, scale, _) in miner.environments.items() if lift - scale < 0]
    if clean and len(miner.environments) > 1:
        yield Exculpation("some_environments_clean", "no lift in " + ", ".join(sorted(clean)))
    peers = [m for m in miners if m.unit == miner.unit and m.hotkey != miner.hotkey and m.status is Status.CLEAR]
    if peers:
        yield Exculpation("cluster_peers_clear", f"{len(peers)} other hotkeys of its cluster show no such lift")
    rank = _rank(miner, miners)
    if rank is not None:
        yield Exculpation("fresh_rank", f"on fresh items alone it ranks {rank} of {len(miners)}")


def _rank(miner: MinerReport, miners: Iterable[MinerReport]) -> int | None:
    mine = miner.fresh_score
    if mine is None:
        return None
    return 1 + sum((other.fresh_score or -math.inf) > mine for other in miners if other.fresh_score is not None)


def _leak(traced: Traced, evidence: str) -> Finding:
    told = sum(t.named for t in traced.told)
    return Finding(
        detector=DETECTOR,
        code="overfit.leak",
        subject=Party(Kind.VALIDATOR, traced.validator),
        object=None,
        log10_likelihood_ratio=log10_capped(traced.log_likelihood_ratio),
        p_value=traced.p,
        null=TRACER_NULL,
        evidence=evidence,
        measured={"items": traced.items, "lift": traced.lift, "adjusted_p": traced.adjusted, "told": told},
        exculpatory=(
            Exculpation(
                "how_it_leaked_is_open",
                "its tracers became known; whether it gave them away or was broken into, scores cannot say",
            ),
        ),
    )


def _informed(traced: Traced, told: Told, evidence: str) -> Finding:
    ratio = -math.log(max(told.p, 1e-300))
    return Finding(
        detector=DETECTOR,
        code="overfit.tracer",
        subject=Party(Kind.HOTKEY, told.hotkey),
        object=Party(Kind.VALIDATOR, traced.validator),
        # The Vovk-Sellke bound, the most that a p-value can be worth: 1 / (-e p ln p).
        log10_likelihood_ratio=log10_capped(max(0.0, ratio - 1 - math.log(max(ratio, 1.0)))),
        p_value=told.p,
        null="fisher/tracers:conditional-binomial,strata=epoch+environment",
        evidence=evidence,
        measured={"lift": told.lift, "items": traced.items, "adjusted_p": told.adjusted},
        exculpatory=(
            Exculpation("bound", "the likelihood ratio is the largest that its p-value allows"),
            Exculpation("who_told_whom_is_open", "it may have had the items at second hand"),
        ),
    )


def _document(results: Results, miner: MinerReport) -> Document:
    index = results.hotkeys.index(miner.hotkey)
    return {
        "schema": "overfit/evidence/v1",
        "hotkey": miner.hotkey,
        "unit": miner.unit,
        "null": miner.null,
        "p_value": decimal(miner.p or 1.0),
        "log_e_value": decimal(miner.log_e),
        "lift": None if miner.lift is None else decimal(miner.lift),
        "interval": [decimal(v) for v in miner.interval or ()],
        "cells": _cells(results, index),
    }


def _cells(results: Results, miner: int) -> list[Document]:
    mine = results.miner == miner
    listed: list[Document] = []
    for index, cell in enumerate(results.cells):
        entry: dict[str, object] = {"epoch": cell.epoch, "environment": cell.environment}
        for name, exposed in (("fresh", False), ("exposed", True)):
            rows = mine & (results.item_cell[results.item] == index) & (results.item_exposed[results.item] == exposed)
            scores = results.score[rows & (results.item_validator[results.item] == NOBODY)]
            entry[name] = {"items": int(scores.size), "sum": decimal(float(np.sum(scores)))}
        listed.append(entry)
    return listed


def _tracer_document(traced: Traced) -> Document:
    return {
        "schema": "overfit/tracer-evidence/v1",
        "validator": traced.validator,
        "items": traced.items,
        "p_value": decimal(traced.p),
        "adjusted": decimal(traced.adjusted),
        "told": [
            {"hotkey": t.hotkey, "p_value": decimal(t.p), "lift": decimal(t.lift)} for t in traced.told if t.named
        ],
    }
