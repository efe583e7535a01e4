"""Runs the engine's stages as Spark jobs: Java and sessions, sources, epochs, exchange, tasks, sinks, commit.

This is the only layer that imports pyspark.
"""
