"""Affine's shapes: its scores response in, its weights response out (../shared notes: ``docs/for-validators.md``).

The response holds means and sample counts, not items, so differences cannot be paired; their errors are bounded by the
scores' range: [0, 1] where every mean lies in it, else what the policy declares. Where neither is known a lower mean
counts as worse and a higher one as nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import BadInput, Unavailable, UsageError
from ..known import address
from .field import MAX_ENVIRONMENTS, MAX_SUBMISSIONS, Field, Means, Submission, bounded_variance, in_order
from .policy import Policy

MAX_BYTES: Final = 256 << 20
MAX_TEXT: Final = 500
MAX_SCORE: Final = 1e30
MAX_COUNT: Final = 1 << 40
SYSTEM_UID: Final = 1000
"""Uids above this are models of the subnet itself, without a commitment; their weight is burned."""


@dataclass(frozen=True)
class Response:
    """A scores response.

    Args:
        block: Block at which it was made.
        field: What it says, in commit order.
    """

    block: int
    field: Field


def read_response(path: Path, policy: Policy) -> Response:
    """Read a scores response.

    Raises:
        Unavailable: It cannot be read.
        BadInput: It is no such response; the message names the entry.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unavailable("cannot read the scores", where=str(path), got=error.strerror or str(error)) from None
    if len(raw) > MAX_BYTES:
        raise BadInput("the response is too large", where=str(path), expected=f"at most {MAX_BYTES} bytes")
    try:
        said = json.loads(raw, parse_constant=_no_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise BadInput("not JSON", where=str(path), got=str(error)[:200]) from None
    return parse_response(said, policy, where=str(path))


def parse_response(said: object, policy: Policy, *, where: str = "scores") -> Response:
    """The response's field.

    Raises:
        BadInput: A member is missing, of the wrong kind or out of range, or one model comes twice.
    """
    members = _object(said, where)
    entries = members.get("scores")
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_SUBMISSIONS:
        raise BadInput("no list of scores", where=where, expected=f"1 to {MAX_SUBMISSIONS} entries under `scores`")
    found = [_object(entry, f"{where}: scores[{i}]") for i, entry in enumerate(entries)]
    submissions = [_submission(entry, f"{where}: scores[{i}]") for i, entry in enumerate(found)]
    _distinct(submissions, where)
    order = in_order(submissions)
    means = [_means(found[i], f"{where}: scores[{i}]") for i in order]
    notes = ["the response does not say where in its block a model was committed: ties go by hotkey"]
    environments = _environments(means, policy, notes, where)
    field = Field(tuple(submissions[i] for i in order), environments, tuple(notes))
    return Response(_whole(members, "block_number", where), field)


def weights_response(block: int | None, policy: Policy, weights: Mapping[str, float]) -> dict[str, Any]:
    """Affine's weights response; uids as text."""
    return {
        "block_number": block,
        "config": {"policy": policy.name, "version": policy.version, "digest": policy.digest},
        "weights": {uid: {"weight": weight} for uid, weight in weights.items()},
    }


def _submission(entry: Mapping[str, Any], where: str) -> Submission:
    text = _text(entry, "miner_hotkey", where)
    try:
        hotkey = address.normalise(text)[0]
    except UsageError as error:
        raise BadInput("not a hotkey", where=where, got=error.got, expected=error.expected) from None
    valid = entry.get("is_valid", True)
    if not isinstance(valid, bool):
        raise BadInput("is_valid is not true or false", where=where, got=repr(valid)[:80])
    reason = str(entry.get("invalid_reason") or "no reason given")[:MAX_TEXT]
    uid = entry.get("uid")
    if uid is not None and (not isinstance(uid, int) or isinstance(uid, bool) or not -1 <= uid <= 0xFFFF):
        raise BadInput("not a uid", where=where, got=repr(uid)[:80], expected="-1..65535")
    return Submission(
        hotkey=hotkey,
        revision=_text(entry, "model_revision", where),
        block=_whole(entry, "first_block", where),
        extrinsic=0,
        uid=uid,
        excluded="" if valid else f"invalid: {reason}",
    )


def _distinct(submissions: list[Submission], where: str) -> None:
    seen: set[tuple[str, str]] = set()
    for submission in submissions:
        key = submission.hotkey, submission.revision
        if key in seen:
            raise BadInput("one model comes twice", where=where, got=f"{key[0]} {key[1]}")
        seen.add(key)


def _means(entry: Mapping[str, Any], where: str) -> dict[str, tuple[float, float]]:
    """Mean and sample count (NaN where not said) by environment."""
    found = {}
    for name, said in _object(entry.get("scores_by_env") or {}, f"{where}: scores_by_env").items():
        place = f"{where}: {name[:100]}"
        if not name or len(name) > MAX_TEXT or not name.isprintable():
            raise BadInput("not the name of an environment", where=where, got=ascii(name[:100]))
        measured = _object(said, place)
        mean = measured.get("score", measured.get("mean"))
        if mean is None:
            continue
        count = measured.get("sample_count")
        found[name] = _number(mean, place, MAX_SCORE), math.nan if count is None else _number(count, place, MAX_COUNT)
    return found


def _environments(
    means: list[dict[str, tuple[float, float]]], policy: Policy, notes: list[str], where: str
) -> tuple[Means, ...]:
    names = sorted({name for found in means for name in found})
    if len(names) > MAX_ENVIRONMENTS:
        raise BadInput("too many environments", where=where, got=len(names), expected=f"at most {MAX_ENVIRONMENTS}")
    made = []
    for name in names:
        rule = policy.environment(name)
        pairs = np.array([found.get(name, (math.nan, math.nan)) for found in means])
        mean, count = pairs[:, 0], np.where(pairs[:, 1] > 0, pairs[:, 1], np.nan)
        bounds = rule.range or ((0.0, 1.0) if np.all((mean >= 0) & (mean <= 1) | np.isnan(mean)) else None)
        if bounds is not None and not np.all((mean >= bounds[0]) & (mean <= bounds[1]) | np.isnan(mean)):
            raise BadInput("a mean is outside the range that the policy declares", where=f"{where}: {name}")
        variance = np.full(len(mean), np.nan) if bounds is None else bounded_variance(mean, count, *bounds)
        if np.isnan(variance[~np.isnan(mean)]).any():
            notes.append(f"{name}: no error is known, so nobody is better there; declare its range in the policy")
        turned = -mean if rule.lower_is_better else mean
        made.append(Means(name, turned, variance, np.nan_to_num(count), rule))
    return tuple(made)


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput("not an object", where=where, got=type(value).__name__)
    return value


def _text(entry: Mapping[str, Any], name: str, where: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT or not value.isprintable():
        raise BadInput(f"member {name} is missing or wrong", where=where, got=repr(value)[:80], expected="text")
    return value


def _whole(entry: Mapping[str, Any], name: str, where: str) -> int:
    value = entry.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise BadInput(f"member {name} is missing or wrong", where=where, got=repr(value)[:80], expected="a number")
    return value


def _number(value: object, where: str, limit: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= limit:
        raise BadInput("not a finite number", where=where, got=repr(value)[:80])
    return float(value)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key comes twice")
    return members
