"""How often the overfit detector finds cheats and leaks, and how often it accuses the honest, in simulated fields."""
