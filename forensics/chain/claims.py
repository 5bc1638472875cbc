"""What each hotkey of a subnet claims, by the rules of its competition: one typed state a hotkey, none left out.

Pure: commitments and swaps in, claims out. A claim that breaks a rule is shown with why; what follows is the policy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..errors import CommitMalformed
from .grammar import Named, Rules, SealedClaim, parse
from .observed import Commit, Kind, Neuron, Swap


class Standing(StrEnum):
    """What a hotkey's commitments come to."""

    NAMED = "named"
    """It names a model."""
    NONE = "no_commitment"
    """It has committed to nothing."""
    SEALED = "sealed"
    """What it committed to cannot be read yet."""
    MALFORMED = "malformed_commitment"
    """What it committed to names no model."""
    BROKEN = "commitment_rule"
    """It names a model, against a rule of the competition."""


@dataclass(frozen=True)
class Claim:
    """What a hotkey claims.

    Args:
        hotkey: Who.
        uid: Its uid now.
        standing: What it comes to.
        commit: The commitment that counts, where there is one; of a predecessor where the hotkey was only rotated.
        named: The model it names.
        reason: Why it is malformed or against the rules, as ``code:detail``.
    """

    hotkey: str
    uid: int
    standing: Standing
    commit: Commit | None = None
    named: Named | None = None
    reason: str = ""


def claims(
    neurons: Iterable[Neuron], commits: Iterable[Commit], swaps: Sequence[Swap], rules: Rules
) -> tuple[Claim, ...]:
    """The claim of every neuron, in their order.

    Args:
        neurons: Who is on the subnet.
        commits: All commitments that were ever seen there.
        swaps: All hotkey swaps that were ever seen there, in the chain's order.
        rules: Of the competition.
    """
    by_hotkey: dict[str, list[Commit]] = {}
    for commit in commits:
        by_hotkey.setdefault(commit.hotkey, []).append(commit)
    neurons = tuple(neurons)
    here = {neuron.hotkey for neuron in neurons}
    before = {swap.new: swap.old for swap in swaps if swap.old not in here}
    return tuple(_claim(neuron, by_hotkey, before, swaps, rules) for neuron in neurons)


def _claim(
    neuron: Neuron,
    by_hotkey: Mapping[str, list[Commit]],
    before: Mapping[str, str],
    swaps: Sequence[Swap],
    rules: Rules,
) -> Claim:
    own = by_hotkey.get(neuron.hotkey, [])
    made = own or _inherited(neuron.hotkey, by_hotkey, before)
    if not made:
        return Claim(neuron.hotkey, neuron.uid, Standing.NONE)
    said = [(commit, _said(commit, rules)) for commit in made if commit.kind is not Kind.SEALED]
    readable = [(commit, word) for commit, word in said if not isinstance(word, SealedClaim)]
    if not readable:
        return Claim(neuron.hotkey, neuron.uid, Standing.SEALED, max(made, key=_order))
    commit, word = max(readable, key=lambda pair: _order(pair[0]))
    if isinstance(word, CommitMalformed):
        reason = f"malformed_commitment:{word.kind}"
        return Claim(neuron.hotkey, neuron.uid, Standing.MALFORMED, commit, reason=reason)
    reason = _broken(neuron, commit, word, [one for one, _ in readable], swaps, rules) if own else ""
    standing = Standing.BROKEN if reason else Standing.NAMED
    return Claim(neuron.hotkey, neuron.uid, standing, commit, word, reason)


def _inherited(hotkey: str, by_hotkey: Mapping[str, list[Commit]], before: Mapping[str, str]) -> list[Commit]:
    """Commitments of the key that this one took the place of, when it made none itself: a rotation, not a new claim."""
    seen = {hotkey}
    while (hotkey := before.get(hotkey, "")) and hotkey not in seen:
        if hotkey in by_hotkey:
            return by_hotkey[hotkey]
        seen.add(hotkey)
    return []


def _said(commit: Commit, rules: Rules) -> Named | SealedClaim | CommitMalformed:
    try:
        return parse(commit.data, rules)
    except CommitMalformed as error:
        return error


def _broken(
    neuron: Neuron, commit: Commit, named: Named, readable: list[Commit], swaps: Sequence[Swap], rules: Rules
) -> str:
    """The first rule that a claim breaks, in the words that validators of Affine know; empty when it keeps them all."""
    if rules.one_commit and (count := len({one.data for one in readable})) > 1:
        return f"multiple_commits:count={count}"
    if rules.registrant_commits and (registrant := _registrant(neuron, swaps)) not in (None, neuron.hotkey):
        return f"hotkey_swapped_no_registration:registrant={registrant}"
    if rules.hotkey_suffix and not named.repo.endswith(commit.hotkey):
        return f"repo_name_without_hotkey:repo={named.repo}"
    return ""


def _registrant(neuron: Neuron, swaps: Sequence[Swap]) -> str | None:
    """Who registered a neuron's uid: by the chain's event, else by swaps since; None when nothing says so."""
    if neuron.registrant is not None:
        return neuron.registrant
    came = [swap for swap in swaps if swap.new == neuron.hotkey and swap.block >= neuron.registered]
    return came[0].old if came else None


def _order(commit: Commit) -> tuple[int, int, bytes]:
    return commit.block, commit.extrinsic, commit.data
