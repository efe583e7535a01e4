"""Statements, from what was parsed to what is done."""
