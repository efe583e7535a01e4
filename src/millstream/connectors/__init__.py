"""What feeds a database from outside and what is fed by it: sources, their loop, sinks."""
