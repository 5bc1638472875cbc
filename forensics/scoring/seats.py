"""From hotkeys to uids, at the last moment: weights belong to hotkeys, the chain wants seats."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Final

from .affine import SYSTEM_UID
from .run import Alarm, Row, Scoring

U16: Final = 65_535


@dataclass(frozen=True)
class Seated:
    """Weights as they go to the chain.

    Args:
        by_uid: Every uid with weight, the burn's included; adds up to 1. Empty when no uid is known at all.
        by_hotkey: Every hotkey with weight; what is burned is missing.
        seats: Uid of each hotkey that has one.
        alarms: Weight that was won and cannot be set.
        notes: Seats on which sources differ.
    """

    by_uid: dict[int, float]
    by_hotkey: dict[str, float]
    seats: dict[str, int]
    alarms: tuple[Alarm, ...]
    notes: tuple[str, ...]


def seat(scoring: Scoring, *, block: int | None = None) -> Seated:
    """Find a uid for every weight.

    Uids of system models (above 1000, or -1) and what multipliers withheld go to the uid that burns. Two hotkeys never
    share a seat: the verdicts' word on it counts, being about this block; without it neither gets the seat.

    Args:
        scoring: The result.
        block: Block of the scores, when known: newer than the verdicts', it wins where both name a seat.
    """
    notes: list[str] = []
    alarms: list[Alarm] = []
    seats = _alone(_seats(scoring.rows, _newer(scoring, block), notes), alarms)
    by_hotkey: dict[str, list[float]] = defaultdict(list)
    for row in scoring.rows:
        if row.weight > 0:
            by_hotkey[row.submission.hotkey].append(row.weight)
    totals = {hotkey: fsum(weights) for hotkey, weights in by_hotkey.items()}
    by_uid = _by_uid(totals, seats, scoring, alarms) if seats else {}
    return Seated(by_uid, totals, seats, tuple(alarms), tuple(notes))


def _newer(scoring: Scoring, block: int | None) -> bool:
    """Whether the verdicts' seats are the newer ones."""
    snapshot = None if scoring.reading is None else scoring.reading.snapshot
    return snapshot is not None and (block is None or snapshot.verdicts.block >= block)


def _seats(rows: Sequence[Row], verdicts_first: bool, notes: list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        told, judged, hotkey = row.submission.uid, row.judged.uid, row.submission.hotkey
        if told is not None and judged is not None and told != judged:
            notes.append(f"{hotkey}: uid {told} in the scores, {judged} in the verdicts")
        choices = (judged, told) if verdicts_first else (told, judged)
        uid = next((choice for choice in choices if choice is not None), None)
        if uid is not None:
            found[hotkey] = uid
    return found


def _alone(seats: dict[str, int], alarms: list[Alarm]) -> dict[str, int]:
    """Seats that one hotkey has."""
    sitting: dict[int, list[str]] = defaultdict(list)
    for hotkey, uid in seats.items():
        sitting[uid].append(hotkey)
    for uid, hotkeys in sitting.items():
        if len(hotkeys) > 1 and 0 <= uid <= SYSTEM_UID:
            alarms.append(Alarm("seat_contested", f"uid {uid} is claimed by {', '.join(sorted(hotkeys))}"))
    return {hotkey: uid for hotkey, uid in seats.items() if len(sitting[uid]) == 1 or not 0 <= uid <= SYSTEM_UID}


def _by_uid(totals: dict[str, float], seats: dict[str, int], scoring: Scoring, alarms: list[Alarm]) -> dict[int, float]:
    burn = scoring.policy.burn_uid
    parts: dict[int, list[float]] = defaultdict(list)
    if scoring.burned > 0:
        parts[burn].append(scoring.burned)
    for hotkey, weight in totals.items():
        uid = seats.get(hotkey)
        if uid is None:
            alarms.append(Alarm("weight_lost", f"{hotkey} won {weight:.6f} and has no uid; it is burned"))
        seated = uid is not None and 0 <= uid <= SYSTEM_UID
        parts[uid if uid is not None and seated else burn].append(weight)
    found = {uid: fsum(weights) for uid, weights in sorted(parts.items())}
    top = max(found.values(), default=0.0)
    for uid, weight in found.items():
        if round(weight / top * U16) == 0:
            alarms.append(Alarm("rounds_to_zero", f"uid {uid} won {weight:.3g}, which the chain rounds to nothing"))
    return found
