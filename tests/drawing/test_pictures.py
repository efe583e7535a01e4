"""Plans as JSON, DOT and SVG: well formed whatever stands in a query, and the same as what is looked at."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest

import millstream as ms
from millstream.drawing.plan import FORMATS, PlanView

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as opened:
        opened.execute("CREATE STREAM s (a BIGINT, t STRING, ts BIGINT) TIMESTAMP BY ts")
        yield opened


def texts(svg: str) -> list[str]:
    return ["".join(each.itertext()) for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_querys_plan_draws_itself(db: ms.Database) -> None:
    query = db.register("SELECT DISTINCT a FROM s [RANGE 5] WHERE t = 'x'", name="q")
    db.insert("s", [(1, "x", 1), (2, "y", 2)])
    plan = query.plan()
    assert plan._repr_svg_() == plan.svg
    assert repr(plan) == f"<plan of 6 nodes at epoch {db.stats()['epoch']}>"
    shown = texts(plan.svg)
    assert {"distinct", "Filter (t = 'x')", "WEAK · delta*", "q"} <= {*shown}
    assert any("2 → 1 rows" in text for text in shown), "what was counted"
    assert len([*ElementTree.fromstring(plan.svg).iter(f"{SVG}rect")]) == 1 + len(plan.document["nodes"])
    assert str(plan) == query.explain()
    assert json.loads(plan.json) == plan.document


@pytest.mark.parametrize("form", FORMATS)
def test_whatever_stands_in_a_query(db: ms.Database, form: str) -> None:
    hostile = '</svg><script>alert(1)</script>"]; \\\\ & ]]> \x07 \ud7ff 🐟 '
    query = db.register(f"SELECT a FROM s [RANGE 5] WHERE t = '{hostile}' AND t <> 'it''s'")
    made = query.explain(format=form)
    if form == "json":
        assert json.loads(made)["nodes"]
    elif form == "svg":
        root = ElementTree.fromstring(made)
        assert not [*root.iter(f"{SVG}script")]
    elif form == "dot" and shutil.which("dot"):
        subprocess.run(["dot", "-Tplain"], input=made.encode(), check=True, capture_output=True)


def test_a_text_and_the_whole_plan(db: ms.Database) -> None:
    text = "SELECT a, COUNT(*) AS n FROM s [RANGE 5] GROUP BY a"
    assert json.loads(db.explain(text, format="JSON"))["nodes"] == db.plan(text).document["nodes"]
    assert "not registered" in texts(db.explain(text, "svg"))
    assert db.plan().document["nodes"] == []
    assert ElementTree.fromstring(db.plan().svg).tag == f"{SVG}svg"
    db.register(text, name="counts")
    assert "counts" in texts(db.plan().svg)
    assert str(db.plan()).count("\n") == len(db.plan().document["nodes"]) - 1
    with pytest.raises(ms.BindError, match="a plan's format is one of text, json, dot, svg, not 'gif'"):
        db.explain(text, format="gif")
    with pytest.raises(ms.BindError, match="not None"):
        db.query("counts").explain(format=None)  # type: ignore[arg-type]


def test_failed_and_busy_operators_are_seen() -> None:
    node: dict[str, Any] = {
        **dict.fromkeys(("pattern", "structure", "rows_in", "seconds"), None),
        **dict.fromkeys(("rows_out", "state_bytes", "rate", "queries"), 0),
        "detail": [],
        "kind": "unheard of",
        "label": "x" * 500,
    }
    nodes = [
        {**node, "id": "a", "state": "failed", "share": 1.0},
        {**node, "id": "b", "state": "filling", "share": 0.0},
    ]
    edges = [{"from": "a", "to": "b", "awaited": True, "rate": 1e9}]
    view = PlanView("", {"epoch": 1, "nodes": nodes, "edges": edges})
    assert 'stroke="#b42318" stroke-width="4.00"' in view.svg
    assert view.svg.count("stroke-dasharray") == 2
    assert "style=dashed" in view.dot
