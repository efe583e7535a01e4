"""One file per experiment, each with an `EXPERIMENT`."""
