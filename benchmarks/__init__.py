"""Measurements of the whole: the gauntlet, speed and scale; each prints one table and writes one JSON."""
