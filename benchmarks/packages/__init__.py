"""Real checkpoints from the package registry: the tool's answers on weights nobody here made."""
