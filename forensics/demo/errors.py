"""What the demo raises beside the service's own errors.

ForensicsError
├── Unavailable / PackageUnavailable   the registry could not be reached, or does not serve the pin   (exit 4)
└── BadInput / PackageDamaged          what came differs from what was pinned                         (exit 3)
"""

from __future__ import annotations

from forensics.errors import BadInput, Unavailable


class PackageUnavailable(Unavailable):
    """The package registry could not be reached, or does not serve the pinned version."""


class PackageDamaged(BadInput):
    """A package's bytes, names or sizes are not what was pinned."""
