"""The receiving side of attestation: verify, log, store, judge, rank; nothing is used before its context is."""

from __future__ import annotations
