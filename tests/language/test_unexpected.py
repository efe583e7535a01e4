"""What a newcomer types first, from other systems or by mistake: the message says what to write here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream as ms

_TUMBLE = "FROM s [TUMBLE 10 SECONDS]"
_SEQUENCES = "there are no sequences"


@pytest.fixture
def db() -> Iterator[ms.Database]:
    with ms.connect(engine="inprocess") as opened:
        opened.execute("CREATE STREAM s (room STRING, celsius DOUBLE, id BIGINT) TIMESTAMP BY ts")
        opened.execute("CREATE TABLE t (room STRING, floor INT) KEY (room)")
        yield opened


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        # misspelt
        ("SELECT room FORM s", 'did you mean "FROM"?'),
        ("SELECT room FROM s WERE id > 1", 'did you mean "WHERE"?'),
        ("SELECT room FROM s WHERE id > 1 GRUOP BY room", 'did you mean "GROUP"?'),
        ("SELECT room FROM s ODRER BY room", 'did you mean "ORDER"?'),
        ("SELECT room FROM s GROUP room", "write GROUP BY"),
        ("SELECT room FROM s ORDER room", "write ORDER BY"),
        ("SELECT coutn(*) FROM s", 'did you mean "count"?'),
        ("SELECT coutn(room) FROM s", 'did you mean "count"?'),
        ("SELECT coutn(*) FILTER (WHERE id > 1) FROM s", 'did you mean "count"?'),
        ("SELECT substrin(room) FROM s", 'did you mean "substring"?'),
        ("SELECT rnak() OVER (ORDER BY id) FROM s", 'did you mean "rank"?'),
        ("SHOW TABELS", None),
        ("CREATE TABLE u (a FLOT)", 'did you mean "FLOAT"?'),
        ("SELECT FROM s", "SELECT * has all of them"),
        # windows
        ("SELECT room FROM s RANGE 10 SECONDS", "windows stand in brackets: FROM s [RANGE 10 SECONDS]"),
        ("SELECT room FROM s RANGE 10", "windows stand in brackets: FROM s [RANGE 10]"),
        ("SELECT room FROM s ROWS 5 WHERE id > 1", "windows stand in brackets: FROM s [ROWS 5]"),
        ("SELECT room FROM s RANGE UNBOUNDED", "windows stand in brackets: FROM s [RANGE UNBOUNDED]"),
        ("SELECT room FROM s RANGE INTERVAL '10' SECOND", "in brackets: FROM s [RANGE INTERVAL '10' SECOND]"),
        ("SELECT room FROM s AS x [RANGE 10]", "a window stands before the alias"),
        ("SELECT count(*) FROM s GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)", _TUMBLE),
        ("SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) FROM s", "window_start and window_end are columns"),
        ("SELECT time_bucket('10 seconds', ts) FROM s", _TUMBLE),
        ("SELECT * FROM TUMBLE(s, ts, 10)", _TUMBLE),
        ("SELECT count(*) FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY room EMIT CHANGES", _TUMBLE),
        # what others have
        ("SELECT count(*) FROM s GROUP BY room EMIT CHANGES", "leave EMIT CHANGES out"),
        ("SELECT room FROM s EMIT CHANGES", "leave EMIT CHANGES out"),
        ("INSERT INTO t VALUES ('a', 1) RETURNING room", "leave RETURNING out"),
        ("DELETE FROM t RETURNING *", "leave RETURNING out"),
        ("UPDATE t SET floor = 2 RETURNING *", "leave RETURNING out"),
        ("CREATE TABLE u (id SERIAL PRIMARY KEY)", _SEQUENCES),
        ("CREATE TABLE u (id BIGSERIAL)", _SEQUENCES),
        ("CREATE TABLE u (id INT AUTO_INCREMENT)", _SEQUENCES),
        ("SELECT nextval('numbers')", _SEQUENCES),
        ("CREATE TABLE u (id INT) WITH ('connector' = 'kafka')", "USING json OPTIONS"),
        ("REGISTER QUERY q IF NOT EXISTS AS SELECT 1", "stand before the name"),
        ("CREATE STREAM u IF NOT EXISTS (a INT) TIMESTAMP BY ts", "stand before the name"),
        ("DROP STREAM s IF EXISTS", "stand before the name"),
        ("PRINT s", "SELECT * FROM s"),
        ("LIST STREAMS", "SHOW STREAMS"),
        ("TERMINATE q", "DROP QUERY q"),
        ("SUBSCRIBE TO q", "q.follow()"),
    ],
)
def test_the_message_says_what_to_write(db: ms.Database, text: str, hint: str | None) -> None:
    with pytest.raises(ms.StatementError) as refused:
        db.execute(text)
    assert refused.value.place is not None
    if hint is None:
        assert 'did you mean "TABLES"?' in refused.value.primary
    else:
        assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE STREAM u (id INT, at TIMESTAMP) WITH (kafka_topic = 'u')", "TIMESTAMP BY ts USING json OPTIONS"),
        ("CREATE STREAM u (id INT, WATERMARK FOR id AS id - 5)", "HEARTBEAT DELAY"),
        ('CREATE STREAM "u" (id INT) TIMESTAMP BY ts', "quotes make a text; as a name it is u, or `u`"),
        ('INSERT INTO t ("room") VALUES (1)', "quotes make a text; as a name it is room, or `room`"),
        ("REGISTER QUERY q SELECT room FROM s", "as in REGISTER QUERY q AS SELECT"),
    ],
)
def test_the_message_itself_says_it(db: ms.Database, text: str, said: str) -> None:
    with pytest.raises(ms.SyntaxError) as refused:
        db.execute(text)
    assert said in refused.value.primary


def test_names_that_come_near_to_no_clause_are_not_taken_for_one(db: ms.Database) -> None:
    for text in ("SELECT room id celsius FROM s", "SELECT room FROM s roof chimney"):
        with pytest.raises(ms.SyntaxError, match="unexpected") as refused:
            db.execute(text)
        assert refused.value.hint is None


def test_streams_are_listed_before_system_tables_and_templates_are_known(db: ms.Database) -> None:
    with pytest.raises(ms.NameError, match=r"there are: s, t, s\._late"):
        db.execute("SELECT * FROM xyz")
    db.register_many("SELECT * FROM s WHERE id = ?", [1, 2], template="alerts")
    with pytest.raises(ms.NameError, match=r'it is a template: db.template\("alerts"\)'):
        db.execute("SELECT * FROM alerts")


# Texts in double quotes

_QUOTED = 'line 1, column 8: "id" is a text, as all that stands in quotes is; the column is id, or `id`'


def test_a_text_that_is_called_as_a_column_is_noticed(db: ms.Database) -> None:
    result = db.execute('SELECT "id" FROM s')
    assert result.notices == (_QUOTED,)
    assert str(result).endswith(_QUOTED)
    assert db.execute("SELECT 'id' FROM s").notices == (), "single quotes are those of texts everywhere"
    assert db.execute('SELECT "other" FROM s WHERE room = "lab"').notices == (), "nothing is called so"
    assert db.register('SELECT "id" FROM s').notices == [_QUOTED]
    assert db.register('SELECT s."id" FROM s').notices == [], "which is a name"
    for other in ("x", "y", "z"):  # texts of one shape are not read again
        assert db.register(f'SELECT room FROM s WHERE room = "{other}"').notices == []
    (known,) = db.register('SELECT room FROM s WHERE room = "celsius"').notices
    assert 'column 33: "celsius" is a text' in known


def test_it_is_noticed_wherever_a_column_may_stand(db: ms.Database) -> None:
    told = '"room" is a text'
    for text in (
        'SELECT count(*) FROM s GROUP BY "room"',
        'CREATE VIEW v AS SELECT id FROM s WHERE "room" = 1',
        "DELETE FROM t WHERE \"room\" = 'a'",
        "UPDATE t SET floor = 1 WHERE \"room\" = 'a'",
        'REGISTER QUERY q MODE LAZY AS SELECT "room" FROM s',
        'INSERT INTO t SELECT "room", 1 FROM t',
    ):
        result = db.execute(text)
        assert any(told in notice for notice in result.notices), text
        assert told in str(result), text
    (said,) = db.register_many('SELECT id FROM s WHERE "room" = ?', ["a", "b"], template="many").notices
    assert told in said
    assert [told in query.notices[0] for query in db.register_many('SELECT id FROM s WHERE "room" = ?', ["a"])] == [
        True
    ]


# Constants that have no value

_NO_NUMBER = "it fails as soon as a row comes to this: celsius > 'abc' (line 2, column 7): cannot read a text as DOUBLE"


@pytest.mark.parametrize("mode", ["eager", "lazy", "none"])
def test_a_constant_without_a_value_is_noticed_with_its_place(db: ms.Database, mode: str) -> None:
    text = "SELECT room FROM s [RANGE 10]\nWHERE celsius > 'abc'"
    (noticed,) = db.register(text, mode=mode).notices
    assert noticed.startswith(_NO_NUMBER)
    (asked,) = db.execute(text).notices
    assert asked == noticed
    assert db.register("SELECT room FROM s [RANGE 10]\nWHERE celsius > '12'", mode=mode).notices == []


def test_a_parameter_without_a_value_is_noticed(db: ms.Database) -> None:
    text = "SELECT room FROM s WHERE celsius > ?"
    wrong, right = db.register_many(text, ["abc", "12"])
    assert "celsius > 'abc' (line 1, column" in wrong.notices[0]
    assert right.notices == []
    (said,) = db.register_many(text, ["1", "xyz"], names=["one", "two"], template="many").notices
    assert said.startswith("two: it fails as soon as a row comes to this: celsius > 'xyz'")


# Calls from Python


def test_calls_that_take_something_else_say_what(db: ms.Database) -> None:
    for rows in (("lab", 1.0, 2, 3), {"room": "lab"}, "lab"):
        with pytest.raises(ms.InputError, match="one row is a list of one"):
            db.insert("s", rows)
    with pytest.raises(ms.BindError, match=r"execute\(text, \[1\]\) gives one"):
        db.execute("SELECT room FROM s WHERE id = ?")
    with pytest.raises(ms.SetupError, match="named by a path, not by a int"):
        ms.connect(5)  # type: ignore[call-overload]


def test_what_depends_on_now_is_said_by_a_window(db: ms.Database) -> None:
    for text in ("SELECT room FROM s WHERE id > now()", "SELECT current_timestamp FROM s"):
        with pytest.raises(ms.Error, match=r"FROM s \[RANGE 1 HOUR\]; or put the value into the stream"):
            db.execute(text)
    with pytest.raises(ms.BindError, match="hint: put the value into the stream"):
        db.execute("SELECT rand() FROM s")


def test_a_window_of_few_microseconds_is_noticed(db: ms.Database) -> None:
    db.execute("CREATE STREAM clicks (url STRING, at TIMESTAMP) TIMESTAMP BY at")
    told = "line 1, column 34: 60 means microseconds, the ticks of this stream: write [TUMBLE 60 SECONDS] for seconds"
    (notice,) = db.register("SELECT url FROM clicks [TUMBLE   60]").notices
    assert notice == told
    for window in ("[RANGE 60 SECONDS]", "[ROWS 60]", "[RANGE 0]", "[NOW]", "[RANGE 60000000]"):
        assert db.execute(f"SELECT url FROM clicks {window}").notices == (), window
    assert db.execute("SELECT room FROM s [RANGE 60]").notices == (), "whose ticks are what they are"


def test_changes_of_tables_are_told_in_the_time_of_streams() -> None:
    with ms.connect(engine="inprocess") as db:
        db.execute("CREATE STREAM clicks (url STRING, at TIMESTAMP) TIMESTAMP BY at; CREATE TABLE t (a INT)")
        db.execute("INSERT INTO clicks VALUES ('/', '2026-01-01 10:00:00'); ADVANCE TO '2026-01-01 10:00:00'")
        db.execute("INSERT INTO t VALUES (1)")
        assert db.execute("DELETE FROM t").message == "1 row deleted at 2026-01-01 10:00:00.000001+00:00"
        with pytest.raises(ms.InputError, match=r"the earliest instant is 2026-01-01 10:00:00.000001\+00:00"):
            db.execute("INSERT INTO t VALUES (1) AT '2026-01-01 09:00:00'")
