"""Reading checkpoints: one file per container format behind one interface."""
