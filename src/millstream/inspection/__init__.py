"""A database seen from inside: its plan, queries, streams and settings, and texts before they are run."""
