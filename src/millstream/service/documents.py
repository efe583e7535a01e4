"""The documents that requests and answers consist of: what the OpenAPI page shows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Statements(_Request):
    text: str = Field(description="Statements, with semicolons between them.", examples=["SHOW QUERIES"])


class Registration(_Request):
    cql: str = Field(description="A query.", examples=["SELECT k FROM s [RANGE 10]"])
    name: str | None = Field(None, description="Its name; one is made up where there is none.")
    mode: str = Field("eager", description="eager, lazy or none.")


class Registrations(_Request):
    template: str = Field(description="A query with ? for parameters.")
    rows: list[Any] = Field(description="A list of values for each query; a single value where there is one parameter.")
    names: list[str] | None = Field(None, description="Their names, one for each row.")
    mode: str = Field("eager", description="eager, lazy or none.")


class TemplateRegistration(_Request):
    name: str = Field(description="The template's name.")
    text: str = Field(description="A query with ? for parameters.")
    rows: list[Any] = Field(description="A list of values for each query; a single value where there is one parameter.")
    names: list[str] | None = Field(None, description="The names of the queries, one for each row.")
    mode: str | None = Field(None, description="eager, lazy or none; that of the template where it is there.")


class Question(_Request):
    cql: str = Field(description="A query.")


class PlanQuestion(Question):
    form: Literal["text", "json", "dot", "svg"] = Field("text", alias="format")


class Questions(_Request):
    queries: list[str] | None = Field(None, description="Names of queries with the same columns; all of them if none.")
    at: int | str | None = Field(None, description="An instant: a number of ticks, or a timestamp's text.")
    limit: int | None = Field(
        None,
        ge=0,
        le=1 << 31,
        description="Rows of each query at most, of streams the newest; `totals` says how many it has.",
    )


class Heartbeat(_Request):
    to: int | str = Field(description="An instant: a number of ticks, or a timestamp's text.")
    stream: str | None = Field(None, description="The stream; all of them if none is named.")


class Run(_Request):
    until: Literal["idle"] | float = Field("idle", description="idle, or a number of seconds.")


class Column(BaseModel):
    name: str
    type: str


class Rows(BaseModel):
    """Rows as objects. Values of types that JSON lacks are texts: see the service's documentation."""

    columns: list[Column]
    rows: list[dict[str, Any]]
    total: int | None = Field(None, description="How many there are, where a limit was asked for.")


class Inserted(BaseModel):
    accepted: int
    late: int


class Done(BaseModel):
    """What the last statement gave."""

    message: str
    columns: list[Column] | None = None
    rows: list[dict[str, Any]] | None = None
    query: dict[str, Any] | None = None
    insert: Inserted | None = None
    notices: list[str] | None = Field(
        None, description="What its author should know of the text, and of the past that RETAIN has left."
    )
    waiting: str | None = Field(None, description="What rows wait for that have come and are not in the answer yet.")


class About(BaseModel):
    """A query."""

    name: str
    kind: Literal["stream", "relation"]
    mode: str
    columns: list[Column]
    cql: str
    defaults: list[str]
    notices: list[str] = Field(description="What RETAIN had left of the past when it came, where that was not all.")
    final: int | str | None


class Registered(BaseModel):
    names: list[str]
    kind: Literal["stream", "relation"] | None
    mode: str
    columns: list[Column]
    notices: list[list[str]] = Field(description="Those of each query; none at all where no query has any.")


class Listed(BaseModel):
    """Some queries, and how many are wanted in all."""

    queries: list[dict[str, Any]]
    total: int
    states: dict[str, int] | None = Field(None, description="How many of all queries are in each state.")


class AboutTemplate(BaseModel):
    """A template: queries of one text."""

    name: str
    kind: Literal["stream", "relation"]
    mode: str
    text: str
    parameters: list[str] = Field(description="Their types.")
    columns: list[Column] = Field(description="The query's name, its parameters, and the columns of the queries.")
    queries: int
    running: int
    filling: int
    failed: dict[str, str] = Field(description="The queries that have failed, with their errors.")
    notices: list[str]
    final: int | str | None


class Templates(BaseModel):
    templates: list[AboutTemplate]


class Plan(BaseModel):
    plan: str = Field(description="In the format that was asked for.")
    text: str = Field(description="What EXPLAIN says.")


class WorkItem(BaseModel):
    """Something that a caller waits for."""

    id: int
    what: str
    caller: str
    seconds: float


class WorkList(BaseModel):
    work: list[WorkItem]


class Message(BaseModel):
    message: str


class HealthReason(BaseModel):
    """Something that asks for attention; names and details for those who may read."""

    what: str
    count: int
    names: list[str] | None = None
    details: list[str] | None = None


class Health(BaseModel):
    status: Literal["ok", "degraded", "stopping"]
    reasons: list[HealthReason] | None = None


class Readiness(BaseModel):
    ready: bool
    reason: str | None = None


class ErrorResponse(BaseModel):
    """An error: its class, all of it as people read it, and its parts."""

    error: dict[str, Any]


class BackupWanted(_Request):
    """Where a backup goes, and whether files are copied where they could be linked."""

    path: str = Field(max_length=4096)
    copies: bool = Field(default=False, alias="copy")


class BackupState(BaseModel):
    """A backup: `state` is none, running, done or failed (then with the error)."""

    state: str
    path: str | None = None
    bytes: int | None = None
    of_bytes: int | None = None
    files: int | None = None
    epoch: int | None = None
    error: dict[str, Any] | None = None
