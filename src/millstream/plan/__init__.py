"""Logical plans: nodes, rewrite rules, explain, and the shared physical plan."""
