"""How rows, instants and errors are written for other processes: what the service and its clients have in common."""
