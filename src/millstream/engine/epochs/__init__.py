"""One epoch: rows taken in, the concerned steps run in stages, what they leave behind."""
