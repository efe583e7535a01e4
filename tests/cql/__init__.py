"""CQL files that say what must come out of them, and what runs them."""
