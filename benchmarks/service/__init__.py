"""The whole service under load and under fire: from commitments to snapshots, fast, and whatever is killed."""
