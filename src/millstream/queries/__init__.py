"""Standing queries: registered, planned, materialized by mode, recovered, dropped."""
