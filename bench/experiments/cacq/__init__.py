"""CACQ: grouped filters, lineage, SteMs and eddies."""
