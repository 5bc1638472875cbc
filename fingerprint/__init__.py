"""Weight forensics: a checkpoint in, a Fingerprint out; two Fingerprints in, a Relation out.

No database, no network, no clock: everything here is a function of bytes (design/1-architecture, Rooms).
"""
