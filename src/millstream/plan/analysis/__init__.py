"""What can be said of a plan without running it: patterns, lifetimes, keys, monotonicity."""
