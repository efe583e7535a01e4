"""Random databases, inputs and queries: the engine must answer as the oracle does."""
