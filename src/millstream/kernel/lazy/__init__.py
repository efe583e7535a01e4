"""LAZY queries (PSoup-P): matches without windows, and windows applied when they are invoked."""
