"""Many queries evaluated together: grouped filters over a table of queries, lineage bitmaps, an eddy that routes."""
