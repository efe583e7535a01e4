"""The page of the HTTP API, from the OpenAPI document that the service gives itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import millstream as ms
from millstream.service.app import create_app
from millstream.service.sources import SourceReader

_HEAD = """# HTTP

`millstream serve` answers at these paths. A running service shows the same at `/docs`, and gives it to programs at
`/openapi.json`.
[The service's page](service.md#over-http) says how rows are written, what roles may do, and how followers come back.
What goes wrong is always
said in [one form](service.md#over-http).
"""


def document() -> dict[str, Any]:
    """The OpenAPI document of a service."""
    with ms.connect(engine="inprocess") as db:
        return create_app(db, version=ms.__version__, sources=SourceReader(db)).openapi()


def http_page() -> str:
    described = document()
    schemas = described["components"]["schemas"]
    by_subject: dict[str, list[str]] = {}
    for path, methods in described["paths"].items():
        for verb, operation in methods.items():
            subject = operation.get("tags", ["service"])[0]
            by_subject.setdefault(subject, []).append("\n".join(_operation(verb, path, operation, schemas)))
    parts = [f"## {subject.capitalize()}\n\n" + "\n".join(texts) for subject, texts in by_subject.items()]
    return "\n".join([_HEAD, *parts])


def _operation(verb: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {verb.upper()} {path}\n"
    yield f"{operation.get('summary', '')}.\n"
    if operation.get("description"):
        yield f"{operation['description']}\n"
    fields = [*_parameters(operation), *_body(operation, schemas)]
    if fields:
        yield "| | in | type | |\n|---|---|---|---|"
        yield from fields
        yield ""


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    for parameter in operation.get("parameters", []):
        yield _field(
            parameter["name"], parameter["in"], parameter["schema"], parameter.get("required", False), parameter
        )


def _body(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    content = operation.get("requestBody", {}).get("content", {})
    for media, described in content.items():
        reference = described.get("schema", {}).get("$ref", "").rpartition("/")[2]
        if not reference:
            yield f"| | body | `{media}` | {described.get('schema', {}).get('description', '')} |"
            continue
        required = schemas[reference].get("required", [])
        for name, schema in schemas[reference]["properties"].items():
            yield _field(name, "body", schema, name in required, schema)


def _field(name: str, where: str, schema: Mapping[str, Any], required: bool, described: Mapping[str, Any]) -> str:
    kinds = [_kind(option) for option in schema.get("anyOf", [schema])]
    shown = " or ".join(dict.fromkeys(kind for kind in kinds if kind != "null"))
    default = schema.get("default")
    may = "" if required else "may be left out" + (f" (`{json.dumps(default)}`)" if default is not None else "")
    about = str(described.get("description") or schema.get("description") or "").replace("|", "\\|").rstrip(".")
    return f"| `{name}` | {where} | {shown} | {'; '.join(part for part in (about, may) if part)} |"


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {})) or 'anything'}"
    return str(schema.get("type", "anything"))
