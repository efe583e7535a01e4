"""Queries that share one plan: how they come in, and what one that fails takes along."""
