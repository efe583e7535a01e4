"""Attacks on a served database in a process of its own: it never ends, loses no row, and answers in its own words."""
