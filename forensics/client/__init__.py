"""What a validator reads verdicts with: fetch, verify, remember, and say plainly when there is nothing to go by.

Light on purpose: it runs beside a validator, so it needs ``cryptography``, ``httpx2`` and the signature code of
``attest``, and neither torch nor a database (``tests/forensics/client/test_light.py``).

    client = VerdictClient(url, service_key, netuid=120, cache=Path("~/.verdicts").expanduser())
    reading = client.read()
    paid = reading.apply(Scored(hotkey, revision, score) for ...)

The order of things is: what the service says now; if it says nothing or nothing believable, what it said last, until
that expires; after that neutral, every multiplier 1, and loud about it. Nothing a network can do changes a
multiplier: it can only withhold news, and no longer than until the snapshot in hand expires.
"""

from __future__ import annotations

from .clients import AsyncVerdictClient, VerdictClient
from .codes import Code, Problem
from .reading import Applied, Lookup, Paid, Reading, Scored, State
from .snapshot import Refused, Snapshot, Trust, verify

__all__ = [
    "Applied",
    "AsyncVerdictClient",
    "Code",
    "Lookup",
    "Paid",
    "Problem",
    "Reading",
    "Refused",
    "Scored",
    "Snapshot",
    "State",
    "Trust",
    "VerdictClient",
    "verify",
]
