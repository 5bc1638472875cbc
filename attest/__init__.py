"""It is mine, since then, from that: keys, statements, claims and the transparency log, checkable offline.

Nothing in here opens a file, a socket or a database, reads a clock or draws a random number: bytes, times and entropy
come in as arguments, and storage as an interface. What comes from outside is hostile until its signature, its context
and its canonical form have been checked; every refusal is an ``attest.errors.AttestError`` with a stable ``code``.
"""

from __future__ import annotations
