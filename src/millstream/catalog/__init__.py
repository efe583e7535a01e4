"""What is declared: streams, tables, views and users' code; and its entries on disk."""
