"""Joins of many inputs at once: by SteMs, or as a tree."""
