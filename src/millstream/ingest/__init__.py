"""Rows at the door: typed, checked, numbered, or landed by a source."""
