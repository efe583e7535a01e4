"""The shell: statements in, aligned answers out, over a database here or a service elsewhere."""
