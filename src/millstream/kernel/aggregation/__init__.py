"""Aggregates over time: what a group's rows amount to at every instant at which that changes."""
