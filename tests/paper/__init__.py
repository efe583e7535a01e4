"""The example queries of the papers."""
