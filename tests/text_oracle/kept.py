"""Seeds of cases that once failed, rerun in the quick suite.

What a seed means changes with the generators. So a fault that was found is also kept as what it was cut down to: an
example with its answer in `tests/properties/kept`, or a test in the folder of its layer, which is named here.
"""

from __future__ import annotations

KEPT = {
    1053: "users' functions beside dates were lowered without end (tests/catalog/test_user_code.py)",
    1277: "LAZY: an error that was certain waited for its own stream (tests/cql/failing_beside_what_is_behind.cql)",
    2094: "APPEND ONLY tables have a part in when a combination is generated",
    5208: "rows that nothing takes back are told as failed while another input is behind",
}
