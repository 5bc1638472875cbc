"""What this package refuses, as a branch of the package's tree.

SeedError
├── BeaconInvalid      beacon_invalid       bytes that are not the beacon's signature of that round
├── BeaconUnavailable  beacon_unavailable   the round is not out yet, or no source has it: wait, never replace it
├── TimelockInvalid    timelock_invalid     a ciphertext that does not open, opens elsewhere, or is malformed
├── SealInvalid        seal_invalid         a sealed secret that does not open with this key for this epoch
└── BatchInvalid       batch_invalid        an epoch that is not in the batch it is said to be in

No message carries a secret, a key, or bytes that were decrypted.
"""

from __future__ import annotations

from attest.errors import AttestError


class SeedError(AttestError):
    """Anything about hidden seeds that is refused."""

    code = "seed"


class BeaconInvalid(SeedError):
    """Bytes that are not the beacon's signature of that round."""

    code = "beacon_invalid"


class BeaconUnavailable(SeedError):
    """The round is not out yet, or no source has it; the epoch waits."""

    code = "beacon_unavailable"


class TimelockInvalid(SeedError):
    """A timelock ciphertext that does not open, or does not say what it must."""

    code = "timelock_invalid"


class SealInvalid(SeedError):
    """A sealed secret that does not open with this key for this epoch."""

    code = "seal_invalid"


class BatchInvalid(SeedError):
    """An epoch that is not in the batch it is said to be in."""

    code = "batch_invalid"
