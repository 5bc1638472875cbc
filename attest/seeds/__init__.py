"""Hidden seeds: no one can predict them before, everyone can verify them after.

``derive`` is the scheme, ``draw`` turns an item's key into numbers; both need nothing but the standard library, so
that a sceptic's own interpreter can run them. This module imports nothing for the same reason.
"""
