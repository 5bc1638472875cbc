"""One file a resource; each makes its router from ``Services``."""

from __future__ import annotations
