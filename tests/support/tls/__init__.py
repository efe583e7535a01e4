"""A certificate for 127.0.0.1 that signs itself, for tests of TLS, and its key."""
