"""Sketches: short, keyed summaries of values that keep inner products, signs or supports."""
