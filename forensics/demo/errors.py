"""What the demo raises, as one tree.

DemoError
├── PackageUnavailable   the registry could not be reached, or does not serve the pin   (exit 4)
└── PackageDamaged       what came differs from what was pinned                         (exit 3)
"""

from __future__ import annotations

from fingerprint.errors import FingerprintError


class DemoError(FingerprintError):
    """Base of the tree; same fields and one-line message as the errors of ``fingerprint``."""


class PackageUnavailable(DemoError):
    """The package registry could not be reached, or does not serve the pinned version."""


class PackageDamaged(DemoError):
    """A package's bytes, names or sizes are not what was pinned."""
