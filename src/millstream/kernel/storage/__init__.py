"""How operators keep rows: segments, synopses, and the indexes that probe them."""
