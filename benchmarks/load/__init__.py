"""How many validators one service can answer."""
