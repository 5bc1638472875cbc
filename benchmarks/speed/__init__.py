"""How long a scan takes against plain hashing, how much memory it needs, and how small its result is."""
