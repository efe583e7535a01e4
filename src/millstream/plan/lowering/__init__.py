"""From a logical plan to the steps of the shared pipeline."""
