"""Joins of two inputs, what a SteM is, and what several joins have in common."""
