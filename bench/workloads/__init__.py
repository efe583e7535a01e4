"""What is measured over: elements and queries, generated from seeds or read from traces."""
