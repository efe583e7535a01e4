"""Plans as pictures and texts: their documents as JSON, DOT and SVG. Nothing else needs to be installed."""
