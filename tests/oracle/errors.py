"""What the oracle says to a wrong statement or question."""

from millstream.errors import Error


class OracleError(Error):
    """The statement, the rows or the question is wrong; wording is the oracle's own."""
