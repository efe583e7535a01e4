"""A plan over the past: what is read of it, in which slices, and how the present is joined."""
