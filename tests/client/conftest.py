"""Each test with a database here, and with the same one over HTTP."""

from tests.support.both_ways import db

__all__ = ["db"]
