"""PSoup: late queries, and invocations of materialized and lazy ones."""
