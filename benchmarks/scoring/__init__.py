"""How often copies dethrone a champion by luck, what an honest improvement needs, and how fast the ordered front is."""
