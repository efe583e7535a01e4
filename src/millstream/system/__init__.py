"""Millstream watches itself: what epochs, operators, queries, eddies and sinks do, as streams to be queried."""
