"""Two certificates for 127.0.0.1 that sign themselves, for tests of TLS, and their keys."""
