"""One file per experiment, each with an `EXPERIMENT`, in the folder of the paper whose claim it measures."""
