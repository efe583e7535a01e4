"""INSERT, DELETE, UPDATE and ADVANCE."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.connectors.sinks import Sinks
from millstream.ingest.insert import Inputs
from millstream.language import statements as st
from millstream.statements.result import Result

Change = st.Insert | st.Delete | st.Update | st.Advance


class ChangeStatements:
    """Takes rows and heartbeats in, and serves the sinks after each."""

    def __init__(self, inputs: Inputs, sinks: Sinks) -> None:
        self._inputs, self._sinks = inputs, sinks

    def insert_all(self, statements: Sequence[st.Statement]) -> None:
        """INSERTs of the same columns, as one where that gives the same."""
        inserts = [statement for statement in statements if isinstance(statement, st.Insert)]
        if len(inserts) > 1 and self._inputs.insert_together(inserts):
            self._sinks.flush()
        else:
            for insert in inserts:
                self.run(insert)

    def run(self, statement: Change) -> Result:
        result = self._run(statement)
        self._sinks.flush()
        return result

    def _run(self, statement: Change) -> Result:
        match statement:
            case st.Insert():
                outcome = self._inputs.run_insert(statement)
                return Result(str(outcome), insert=outcome)
            case st.Advance():
                return Result(self._inputs.run_advance(statement))
            case _:
                return Result(self._inputs.run_change(statement))
