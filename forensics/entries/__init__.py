"""Entries: every commitment that was ever seen, on its way to a verdict."""
