"""Keys: hotkeys (sr25519, ed25519), the service's Ed25519 key, P-256 for model-signing bundles, and hand-overs."""

from __future__ import annotations
