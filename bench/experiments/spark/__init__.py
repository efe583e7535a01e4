"""Beside plain Spark Structured Streaming."""
