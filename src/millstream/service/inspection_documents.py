"""The documents of those who look inside: the plan, checked texts, names, streams and settings."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from millstream.service.documents import Column


class PlanNode(BaseModel):
    """An operator, a source, a SteM or an output. Numbers are since the database was opened; `rate` and `ms` lately."""

    model_config = ConfigDict(extra="allow")

    id: str
    kind: str = Field(description="source, filter, selection, project, window, stem, join, aggregate, output, ...")
    label: str
    detail: list[str]
    pattern: str | None = Field(description="MONOTONIC, WEAKEST, WEAK or STRICT; none of streams.")
    structure: str | None = Field(description="FIFO, by expiry, by value, delta* or ranked tree.")
    state: str = Field(description="running, filling or failed.")
    rows_in: int | None
    rows_out: int
    selectivity: float | None
    rate: float = Field(description="Rows given in a second, lately.")
    seconds: float | None
    ms: float | None = Field(description="Milliseconds of an epoch, lately.")
    share: float = Field(description="Of the time that all operators took lately, from 0 to 1.")
    expired: int | None = Field(description="Rows that left its state.")
    state_bytes: int
    memory_bytes: int
    queries: int = Field(description="How many share it.")
    suspended: int
    resumed: int


class PlanEdge(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: str
    start: str = Field(alias="from")
    end: str = Field(alias="to")
    pattern: str | None
    rate: float
    awaited: bool


class QueryGroup(BaseModel):
    """Queries that are rows of one query table."""

    id: str
    label: str
    queries: int
    shapes: int
    indexes: list[str]


class PlanGraph(BaseModel):
    epoch: int
    version: int
    nodes: list[PlanNode]
    edges: list[PlanEdge]
    groups: list[QueryGroup]


class Sharers(BaseModel):
    queries: list[dict[str, Any]]
    total: int


class Checked(BaseModel):
    """What a text would be; or `ok` is false, and there are `errors`."""

    model_config = ConfigDict(extra="allow")

    ok: bool
    kind: str | None = None
    schema_: list[Column] | None = Field(None, alias="schema")
    expanded: str | None = None
    defaults: list[str] | None = None
    shared: list[dict[str, Any]] | None = None
    cost: dict[str, Any] | None = None
    plan: str | None = None
    errors: list[dict[str, Any]] | None = None


class NamedColumns(BaseModel):
    name: str
    columns: list[Column]


class Names(BaseModel):
    streams: list[NamedColumns]
    tables: list[NamedColumns]
    views: list[NamedColumns]
    queries: list[str]
    functions: list[dict[str, str]]
    keywords: list[str]


class Streams(BaseModel):
    streams: list[dict[str, Any]]


class Setting(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str
    value: Any
    default: Any
    choices: list[str] | None
    description: str
    changeable: bool


class Settings(BaseModel):
    settings: list[Setting]


class SettingValue(BaseModel):
    model_config = ConfigDict(extra="forbid")

    value: bool | int | str = Field(description="A choice, a number, or a size such as 512 MB.")
    running: bool = Field(
        False, description="Whether queries that run are to go by it too: they move to plans that it makes."
    )


class Sinks(BaseModel):
    sinks: list[dict[str, Any]]


class Me(BaseModel):
    role: str
    names: list[str] = Field(description="The only names, as patterns, that may be written to; none: all.")
    version: str
    database: str | None
    tokens: bool = Field(description="Whether the service asks for tokens.")


class Extent(BaseModel):
    """The instants that a query can be asked for."""

    first_answerable: int | str | None
    final: int | str | None
    type: str
