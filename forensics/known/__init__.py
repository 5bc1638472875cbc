"""Known models: who claims which content since when, and how to find the nearest of them."""
