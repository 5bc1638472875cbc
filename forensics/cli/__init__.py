"""The ``forensics`` command."""
