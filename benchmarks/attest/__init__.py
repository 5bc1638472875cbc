"""What attesting costs: hashing for ownership against SHA-256 alone, and verifying a receipt."""
