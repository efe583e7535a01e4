"""The runner itself: it must see what is wrong, and say where."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cql.runner import load, run
from tests.cql.subjects import OracleSubject

SETUP = """CREATE STREAM S (a INT, s STRING) TIMESTAMP BY ts;
REGISTER QUERY q AS SELECT a, s FROM S [NOW];
REGISTER QUERY p AS SELECT a, s FROM S;
INSERT INTO S VALUES (1, 'x', 0), (1, 'x', 0),
    (2, NULL, 1);
ADVANCE S TO 3;
"""


def outcome(text: str, folder: Path) -> str:
    """What the runner says to a text after SETUP, whose last line is the sixth; nothing if all is well."""
    path = folder / "case.cql"
    path.write_text(SETUP + text)
    try:
        run(load(path), OracleSubject())
    except AssertionError as complaint:
        return str(complaint)
    return ""


@pytest.mark.parametrize(
    "text",
    [
        "--? result q at 0\n--| 1, 'x'\n--| 1, 'x'",
        "--? result q at 1\n--| 2, NULL",
        "--? result q at 2",
        "--? result p at 1\n--| 1, 2, NULL\n--| 0, 1, 'x'\n--| 0, 1, 'x'",
        "--? result p\n--| 1, 2, NULL\n--| 0, 1, 'x'\n--| 0, 1, 'x'",
        "--? changes q since 0\n--| 1, -2, 1, 'x'\n--| 1, 1, 2, NULL\n--| 2, -1, 2, NULL",
        "--? same q q",
        "--? kind p stream",
        "--? defaults p\n--| istream\n--| [range unbounded]",
        "--? error final\n--? result q at 9",
        "--? error (?i)no stream\nSELECT *\nFROM nosuch;\nADVANCE S TO 4;\n--? result q at 4",
        "-- a comment\n\n--? error .\nSELEKT;\n",
    ],
)
def test_accepts_what_is_right(text: str, tmp_path: Path) -> None:
    assert outcome(text, tmp_path) == ""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("--? result q at 0\n--| 1, 'x'", "case.cql:7: result q at 0\n  missing: []\n  surplus: [(1, 'x')]"),
        ("--? result q at 0\n--| 1, 'x'\n--| 1, 'x'\n--| 1, 'y'", "missing: [(1, 'y')]"),
        ("--? result p at 1", "surplus: [(0, 1, 'x'), (0, 1, 'x'), (1, 2, None)]"),
        ("--? changes q since 0\n--| 1, 2, 1, 'x'", "missing: [(1, 2, 1, 'x')]"),
        ("--? same q p", "q is a relation, p a stream"),
        ("--? kind p relation", "p is a stream"),
        ("--? defaults p\n--| istream", "unexpected defaults"),
        ("--? defaults q\n--| istream", "no default says"),
        ("--? error nothing\nADVANCE S TO 4;", "expected an error like nothing"),
        ("--? error nothing\nSELECT * FROM nosuch;", "expected an error like nothing, got: there is no stream"),
        ("SELECT * FROM nosuch;", "case.cql:1: execute CREATE STREAM"),
    ],
)
def test_refuses_what_is_wrong(text: str, complaint: str, tmp_path: Path) -> None:
    assert complaint in outcome(text, tmp_path)
