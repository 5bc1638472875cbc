"""What the life of epochs refuses, under the service's tree.

BadInput
├── EpochUnknown      no such epoch
├── EpochConflict     it would contradict what is committed: a commitment is never replaced
└── NotInRoster       this hotkey is no validator of the epoch
Unavailable
├── EpochHidden       not now: the beacon is not out, or the window is over and nothing is revealed yet
└── ChainUnavailable
    └── ChainSilent   the chain gives no answer; the epoch waits
"""

from __future__ import annotations

from ..errors import BadInput, ChainUnavailable, Unavailable


class EpochUnknown(BadInput):
    """No such epoch."""


class EpochConflict(BadInput):
    """It would contradict what is committed."""


class NotInRoster(BadInput):
    """This hotkey is no validator of the epoch."""


class EpochHidden(Unavailable):
    """Not now."""


class ChainSilent(ChainUnavailable):
    """The chain gives no answer; the epoch waits."""
