"""Who was on which uid from when to when: what was known before, what blocks did since, and the state in the end.

Pure. Registrations and swaps are followed in the chain's order, so that the same times come out however often somebody
looked; where blocks were not read, the state alone says what must have happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .observed import Happenings, Neuron, Registered, SubnetState, Swap


@dataclass(frozen=True)
class Time:
    """A hotkey's time on a uid; ``until`` is None while it lasts."""

    neuron: Neuron
    since: int
    until: int | None = None


@dataclass
class Occupancy:
    """What became of a subnet's uids.

    Attributes:
        ended: By uid, the block at which the time that was open before ended.
        lasting: By uid, the neuron as it is now, where the open time goes on.
        begun: Times that are new, some of them over already.
    """

    ended: dict[int, int] = field(default_factory=dict)
    lasting: dict[int, Neuron] = field(default_factory=dict)
    begun: list[Time] = field(default_factory=list)

    @property
    def changed(self) -> int:
        """Uids on which something ended or began."""
        return len({*self.ended, *(time.neuron.uid for time in self.begun)})


def follow(before: Mapping[int, Time], happened: Iterable[Happenings], state: SubnetState) -> Occupancy:
    """Follow a subnet's uids to a state.

    Args:
        before: Open times by uid.
        happened: The blocks since, in order; fewer than there were where they could not be read.
        state: How it is now.
    """
    found, current = Occupancy(), dict(before)
    for event in _in_order(happened):
        if isinstance(event, Registered):
            _end(found, before, current, event.uid, event.block)
            new = Neuron(event.uid, event.hotkey, "", event.block, registrant=event.hotkey)
            current[event.uid] = Time(new, event.block)
            continue
        for uid in [uid for uid, time in current.items() if time.neuron.hotkey == event.old]:
            time = _end(found, before, current, uid, event.block)
            if time is not None:
                current[uid] = Time(replace(time.neuron, hotkey=event.new, endpoint=None), event.block)
    _settle(found, before, current, state)
    return found


def _in_order(happened: Iterable[Happenings]) -> list[Registered | Swap]:
    events: list[Registered | Swap] = []
    for block in happened:
        events += sorted([*block.registered, *block.swaps], key=lambda event: (event.block, event.extrinsic))
    return events


def _settle(found: Occupancy, before: Mapping[int, Time], current: dict[int, Time], state: SubnetState) -> None:
    at, here = state.block.number, {neuron.uid: neuron for neuron in state.neurons}
    for uid in set(current) - set(here):
        _end(found, before, current, uid, at)
    for uid, neuron in here.items():
        time = current.get(uid)
        same = time is not None and _place(time.neuron) == _place(neuron)
        if time is not None and same and time is before.get(uid):
            if time.neuron.coldkey == neuron.coldkey:
                found.lasting[uid] = neuron
                continue
            same = False
        since = time.since if time is not None and same else _began(time, neuron, at)
        if time is not None and not same:
            _end(found, before, current, uid, since)
        found.begun.append(Time(neuron, since))


def _end(found: Occupancy, before: Mapping[int, Time], current: dict[int, Time], uid: int, block: int) -> Time | None:
    """End what is on a uid now; what began and ended in one block was never there after any."""
    time = current.pop(uid, None)
    if time is not None and time is before.get(uid):
        found.ended[uid] = block
    elif time is not None and time.since < block:
        found.begun.append(replace(time, until=block))
    return time


def _began(time: Time | None, neuron: Neuron, at: int) -> int:
    """Block from which a neuron is there, where no event says so: its registration, else the look that found it."""
    if time is None:
        own = neuron.registrant == neuron.hotkey and neuron.registered
        return neuron.registered if own else at
    return neuron.registered if neuron.registered > time.since else at


def _place(neuron: Neuron) -> tuple[str, int]:
    return neuron.hotkey, neuron.registered
