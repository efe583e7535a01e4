"""Rewrite rules, one file each: pure functions from a node to an equivalent one."""
