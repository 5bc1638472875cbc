"""A miner's side: measure a model, state and sign what is claimed of it, submit, keep the receipt beside it."""

from __future__ import annotations
