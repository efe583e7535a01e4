"""Update patterns: strategies, state by expiration, and the cost model."""
