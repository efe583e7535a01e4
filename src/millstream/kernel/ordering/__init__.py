"""First rows and OVER: what follows from the order of the rows of a relation at every instant."""
