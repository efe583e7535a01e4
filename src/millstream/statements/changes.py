"""INSERT, DELETE, UPDATE and ADVANCE."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from millstream.connectors.sinks import Sinks
from millstream.ingest.insert import Inputs
from millstream.language import statements as st
from millstream.statements.ad_hoc import AdHocQueries
from millstream.statements.result import Result

Change = st.Insert | st.InsertQuery | st.Delete | st.Update | st.Advance


class ChangeStatements:
    """Takes rows and heartbeats in, and serves the sinks after each."""

    def __init__(self, inputs: Inputs, sinks: Sinks, ad_hoc: AdHocQueries) -> None:
        self._inputs, self._sinks, self._ad_hoc = inputs, sinks, ad_hoc

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
            case st.InsertQuery():
                outcome = self._inputs.insert_table(statement, self._rows_now(statement))
                return Result(str(outcome), insert=outcome)
            case st.Advance():
                return Result(self._inputs.run_advance(statement))
            case _:
                return Result(self._inputs.tables.change(statement))

    def _rows_now(self, statement: st.InsertQuery) -> pa.Table:
        """What its query answers now; of elements of a stream, without their timestamps."""
        rows = self._ad_hoc.run(st.AdHocQuery(statement.place, statement.query)).arrow()
        return rows.remove_column(0) if rows.column_names[:1] == ["_ts"] else rows
