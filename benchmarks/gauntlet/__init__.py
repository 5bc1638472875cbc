"""The gauntlet: honest families and attacks on them, over which every claim of the project is measured."""
