"""What can be asked over HTTP, for people: the OpenAPI document as a page that needs nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from typing import Any

from millstream.service.static_files import SECURITY_HEADERS

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222; }
code, pre { font-family: ui-monospace, monospace; font-size: 13px; }
pre { background: #f5f5f5; padding: .7rem; overflow-x: auto; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; }
h2 { margin-top: 2rem; } h3 { margin-bottom: .2rem; } .verb { font-weight: bold; }
@media (prefers-color-scheme: dark) {
  body { background: #1b1b1b; color: #ddd; } pre { background: #262626; } a { color: #8bf; }
}
"""


_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
REFERENCE_HEADERS = {
    **SECURITY_HEADERS,
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; "
    "frame-ancestors 'none'",
}


def _page(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{body}</body></html>'


def reference(schema: dict[str, Any]) -> str:
    """The OpenAPI schema for people."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            by_tag.setdefault(operation.get("tags", [""])[0], []).append(_operation(path, method, operation))
    sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(parts)}" for tag, parts in by_tag.items())
    documents = "".join(
        f"<h3 id='{escape(name)}'>{escape(name)}</h3><pre>{escape(json.dumps(each, indent=1))}</pre>"
        for name, each in schema["components"]["schemas"].items()
    )
    return _page("Millstream: API", f"<h1>Millstream: API</h1>{sections}<h2>documents</h2>{documents}")


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{escape(each.get('description', ''))}</td></tr>"
        for each in operation.get("parameters", [])
    )
    bodies = operation.get("requestBody", {}).get("content", {})
    taken = [f"{escape(kind)} {_named(each.get('schema', {}))}" for kind, each in bodies.items()]
    return (
        f"<h3><span class='verb'>{method.upper()}</span> <code>{escape(path)}</code></h3>"
        f"<p>{escape(operation.get('summary', ''))}. {escape(operation.get('description', ''))}</p>"
        f"{f'<table>{rows}</table>' if rows else ''}{f'<p>Body: {chr(44).join(taken)}</p>' if taken else ''}"
    )


def _named(schema: dict[str, Any]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    return f"<a href='#{escape(name)}'>{escape(name)}</a>" if name else ""
