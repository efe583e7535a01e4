"""Weighted-interval batches and the operators on them. No I/O, no Spark, no clock."""
