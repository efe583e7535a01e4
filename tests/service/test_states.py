"""The state of each query (running, filling, failed with its error): in process, in the listing, and over HTTP."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import urlopen

import pytest
from tests.support.serving import served

import millstream as ms
from millstream.engine.history.backfill import Backfills

TEMPLATE = "SELECT v, ? AS label FROM s [RANGE 99] WHERE 10 / (v - ?) > 0"


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_states_everywhere(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Backfills, "start", lambda _: None)  # the test itself does the work
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM s (k INT, v INT) TIMESTAMP BY ts; SET background_rows = 1")
        names = ["good", "bad", "good too"]
        db.register_many(TEMPLATE, [("x", -7), ("y", 3), ("z", -8)], names, mode, template="t")
        db.insert("s", [(1, ts % 5, ts) for ts in range(20)])
        db.register("SELECT DISTINCT k FROM s [RANGE 3]", name="late")
        with served(db) as url:

            def said(path: str) -> Any:
                with urlopen(f"{url}{path}") as response:
                    body = response.read()
                return json.loads(body) if path.startswith("/v1") else body.decode()

            states = db.stats()["query_states"]
            assert (states["running"], states["filling"], {*states["failed"]}) == (2, ["late"], {"bad"})
            listed = {row["name"]: row for row in db.execute("SHOW QUERIES").table.to_pylist()}  # type: ignore[union-attr]
            assert {name: row["state"] for name, row in listed.items()} == {
                "good": "running",
                "bad": "failed",
                "good too": "running",
                "late": "filling",
            }
            error = listed["bad"]["error"]
            assert "(10 / (v - 3))" in error
            assert "?" not in error
            assert error == states["failed"]["bad"] == db.template("t").stats()["failed"]["bad"]
            assert error.startswith(f"{getattr(db.query('bad').error, 'primary', None)}\n")
            metrics = said("/metrics")
            for state, count in (("running", 2), ("filling", 1), ("failed", 1)):
                assert f'millstream_query_states{{state="{state}"}} {count}' in metrics
            assert 'query="' not in metrics  # there may be any number of them: /healthz has the first names
            reason = json.loads(said("/healthz"))["reasons"][0]
            assert (reason["what"], reason["names"], reason["details"]) == ("queries have failed", ["bad"], [error])
            template = said("/v1/templates/t")
            assert (template["running"], template["filling"], template["failed"]) == (2, 0, {"bad": error})
            assert said("/v1/queries/bad/stats")["error"] == error
            assert said("/v1/queries/late/stats")["state"] == "filling"
            assert said("/v1/queries/late/stats")["backfill"]["of_rows"] == 20
            assert said("/v1/templates/t/result")["missing"] == {"bad": error}
        for _ in db.engine.backfills.slices():
            pass
        assert db.stats()["query_states"]["filling"] == []
        assert db.query("late").stats()["state"] == "running"
