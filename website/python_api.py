"""The page of the Python API, from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import millstream as ms
from millstream import dbapi, errors

_HEAD = """# Python

`import millstream as ms`. `ms.connect` gives a database, and `db.register` a query. A database at a service,
`ms.connect("http://...")`, has the same methods, and `ms.connect_async("http://...")` has them for who awaits;
[the service's page](service.md#serving-a-database) names what differs. All errors derive from `ms.Error`. Instants
(`at`, `since`, `to`) are whole numbers of ticks, or
timestamps where the stream's timestamp is one.
"""
_SEEN = ("show", "df", "pl", "arrow")
# What is public, in the order in which one meets it.
PUBLIC: Mapping[type, tuple[str, ...]] = {
    ms.Database: (
        *("execute", "register", "register_many", "insert", "insert_pieces", "advance", "run", "end_run"),
        *("query", "queries", "template", "templates", "results"),
        *("explain", "plan", "stats", "work", "cancel"),
        *("create_function", "create_aggregate", "create_window", "create_sink", "resume_sink"),
        *("backup", "close"),
    ),
    ms.Query: (
        *("result", "changes", "follow", *_SEEN, "show_changes"),
        *("kind", "schema", "cql", "defaults", "notices", "final", "error", "is_filling", "wait"),
        *("explain", "plan", "stats", "drop"),
    ),
    ms.Template: (
        *("result", "changes", "follow", *_SEEN, "show_changes", "query"),
        *("kind", "schema", "final", "failed", "notices", "wait", "stats", "drop"),
    ),
    ms.Result: (*_SEEN, "fetchall", "fetchone", "fetchmany"),
    ms.InsertResult: (),
}
_MODULES = re.compile(r"\b(?:millstream|collections|pathlib|typing|pyarrow|pyspark|pa|pd|abc)[\w.]*\.(?=\w)")


def python_page() -> str:
    parts = [_HEAD, "## ms.connect\n", _called(ms.connect, "ms.connect")]
    parts += ["## ms.connect_async\n", _called(ms.connect_async, "ms.connect_async")]
    parts += [f"## ms.{f.__name__}\n\n{_called(f, f'ms.{f.__name__}')}" for f in (ms.check, ms.upgrade)]
    for described, names in PUBLIC.items():
        parts += [f"## {described.__name__}\n", f"{_text(described)}\n", *_members(described, names)]
    parts += ["## Errors\n", "| error | |\n|---|---|", *_errors(), ""]
    parts += ["## DB-API 2.0\n", f"`millstream.dbapi`: {_text(dbapi)}\n"]
    return "\n".join(parts)


def _members(described: type, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        member = inspect.getattr_static(described, name)
        yield f"### {described.__name__}.{name}\n"
        yield f"A property. {_text(member)}\n" if isinstance(member, property) else _called(member, name)


def _called(function: Any, name: str) -> str:
    return f"```py\n{name}{_signature(function)}\n```\n\n{_text(function)}\n"


def _signature(function: Any) -> str:
    """As one would call it: without the modules of types, and with a line for each parameter where there are many."""
    signature = inspect.signature(function)
    shown = [parameter for parameter in signature.parameters.values() if parameter.name != "self"]
    returns = f" -> {signature.return_annotation}" if signature.return_annotation is not signature.empty else ""
    parts = [_parameter(parameter) for parameter in shown]
    own = [n for n, parameter in enumerate(shown) if parameter.kind is parameter.KEYWORD_ONLY]
    if own:
        parts.insert(own[0], "*")
    text = f"({', '.join(parts)}){returns}"
    if len(text) > 90:
        text = "(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}"
    return _MODULES.sub("", text)


def _parameter(parameter: inspect.Parameter) -> str:
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{parameter.name}: {parameter.annotation}{default}"


def _text(described: Any) -> str:
    return inspect.getdoc(described) or ""


def _errors() -> Iterator[str]:
    for name in ms.__all__:
        found = getattr(errors, name, None)
        if inspect.isclass(found) and issubclass(found, errors.Error):
            yield f"| `ms.{name}` | {' '.join(_text(found).split())} |"
