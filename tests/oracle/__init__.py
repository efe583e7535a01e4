"""A from-scratch evaluator of CQL that defines what is right: R(t) from the raw inputs, at every instant.

It shares nothing with the engine but the parser. Simple and slow on purpose.
"""

from tests.oracle.errors import OracleError
from tests.oracle.inputs import Taken
from tests.oracle.oracle import Oracle

__all__ = ["Oracle", "OracleError", "Taken"]
