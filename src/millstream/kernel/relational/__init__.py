"""Selection, projection, union; duplicates and set operations; changes as a log; rows that fail."""
