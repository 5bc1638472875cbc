"""Paired per-item results of miners: the table that validators hand in, and where it is kept."""
