"""Plans: logical nodes and physical ones, rewrite rules, explain, and lowering to steps."""
