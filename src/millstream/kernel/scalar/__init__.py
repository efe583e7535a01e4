"""Scalar expressions with Spark SQL's types and ANSI semantics, computed on whole columns."""
