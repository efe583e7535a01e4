"""The page of settings: their defaults, choices and meaning, as the database itself describes them."""

from __future__ import annotations

from typing import Any

from millstream.settings import Settings, described

_HEAD = """# Settings

`SET name = value` changes a setting of the database. It is kept with the database. Most settings hold for the queries
that are registered from then on;
none of them changes an answer, but for those that say what a text means (`range_bounds`, `timezone`, `sample_seed`)
and what may be left out (`shedding`).

[The language](language.md#settings) says more of each, and has the rewrite rules that `disabled_rules` takes.

| setting | what it says | default | may be |
|---|---|---|---|"""


def settings_page() -> str:
    return "\n".join([_HEAD, *(_line(setting) for setting in described(Settings()))]) + "\n"


def _line(setting: dict[str, Any]) -> str:
    default = f"`'{setting['default']}'`" if isinstance(setting["default"], str) else f"`{setting['default']}`"
    return f"| `{setting['name']}` | {setting['description']} | {default} | {_may_be(setting)} |"


def _may_be(setting: dict[str, Any]) -> str:
    if setting["choices"]:
        return ", ".join(f"`'{choice}'`" for choice in setting["choices"])
    least, most = setting["least"], setting["most"]
    kind = {"bytes": "a size, as `'512 MB'`", "number": "a whole number", "text": "a text"}[setting["kind"]]
    bounds = [f"at least {least}"] if least is not None else []
    bounds += [f"at most {most}"] if most is not None else []
    return ", ".join([kind, *bounds])
