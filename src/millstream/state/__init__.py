"""Immutable segments and where they are kept. No plan, no Spark."""
