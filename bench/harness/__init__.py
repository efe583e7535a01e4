"""How experiments run, are measured, compared and drawn. It knows workloads, and no experiment."""
