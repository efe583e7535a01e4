"""Seeds of cases that once failed, rerun in the quick suite.

What a seed means changes with the generators. So a fault that was found is also kept as what it was cut down to: an
example with its answer in `tests/properties/kept`, or a test in the folder of its layer, which is named here.
"""

from __future__ import annotations

KEPT = {
    37: "LAZY: matches that no window holds together failed (tests/database/test_modes.py)",
    33: "all(x) at the start of a select list is ALL of SELECT, here and in Spark",
    206: "streams that wait for rows began one tick early in sinks (tests/database/test_late_rows.py)",
    400: "EXTRACT of a NULL is a DOUBLE in DuckDB",
}
