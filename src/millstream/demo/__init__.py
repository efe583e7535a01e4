"""The CQL paper's Linear Road: a traffic simulator, the queries, and a run that shows their answers."""
