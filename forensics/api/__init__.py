"""The HTTP door: one router a resource, everything it needs handed in, problem+json for every refusal."""

from __future__ import annotations
