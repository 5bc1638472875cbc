"""Webhooks for changed verdicts (https://www.standardwebhooks.com): signed, sent at least once, never into our net."""

from __future__ import annotations
