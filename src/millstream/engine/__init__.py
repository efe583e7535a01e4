"""Epochs: rows are checked and numbered, run through the shared pipeline, committed, and read back as answers."""
