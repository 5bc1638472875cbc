"""Two fingerprints (or checkpoints) in, one Relation out."""
