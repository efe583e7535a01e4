"""A database that a service serves elsewhere: the Python contract over HTTP, for who waits and for who awaits."""
