"""A small real subnet, played through the commands a validator would use: ``forensics demo``."""
