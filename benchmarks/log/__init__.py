"""How fast the transparency log takes entries, proves them and starts up again."""
