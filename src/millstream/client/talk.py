"""What callers ask of a service, written once for those who wait and for those who await.

    @asks
    def stats(self) -> Talk[dict[str, Any]]:
        answer = yield from self._service.asked(get("/v1/stats"))
        return answer.json()

A method says its steps, as a generator: requests, and pauses. It does no I/O. The object's service carries the steps
out: one blocks and gives what comes of them, the other gives a coroutine. Which of the two an object has follows from
its class (`Synchronous` or `Asynchronous`), and so do the types.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, overload

import pyarrow as pa

from millstream.errors import ServiceError
from millstream.wire.media import RowFormat

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Ask:
    """One request."""

    method: str
    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Open:
    """Read events from now on, instead of others that were read."""

    ask: Ask


@dataclass(frozen=True)
class Next:
    """The next event; None where there is no more."""


@dataclass(frozen=True)
class Give:
    """A table for who follows; None says that there is something to follow."""

    table: pa.Table | None


@dataclass(frozen=True)
class Event:
    kind: str
    id: str
    data: str


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "")

    def json(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            raise ServiceError(
                "the service did not answer as one of ours", detail=repr(self.body[:200]), hint="is the address right?"
            ) from None


class Unreachable(Exception):
    """A request that got no answer. `is_cut`: the connection was there, and has ended."""

    def __init__(self, text: str, *, is_cut: bool) -> None:
        super().__init__(text)
        self.is_cut = is_cut


Talk: TypeAlias = Generator[Ask | Pause, HttpAnswer, R]
FollowTalk: TypeAlias = Generator[Open | Next | Pause | Give, Event | None, None]


def get(path: str, accept: RowFormat = RowFormat.JSON, **parameters: Any) -> Ask:
    return Ask("GET", path, parameters, headers={"Accept": str(accept)})


def post(
    path: str,
    content: Any = None,
    *,
    body: bytes | None = None,
    kind: RowFormat = RowFormat.JSON,
    accept: RowFormat = RowFormat.JSON,
    more: Mapping[str, str] | None = None,
) -> Ask:
    sent = json.dumps(content).encode() if body is None else body
    return Ask("POST", path, {}, sent, {"Accept": str(accept), "Content-Type": str(kind), **(more or {})})


class Service(Protocol):
    """Who carries steps out."""

    url: str
    is_closed: bool

    def do(self, steps: Talk[Any]) -> Any:
        """What comes of steps, or a coroutine that gives it."""
        ...

    def asked(self, ask: Ask) -> Talk[HttpAnswer]:
        """The steps to the answer of a request; what the service says is wrong is raised."""
        ...

    def unreachable(self, error: Exception) -> ServiceError: ...


class Synchronous:
    """Its methods block, and give what they are asked for."""


class Asynchronous:
    """Its methods give coroutines."""


class asks(Generic[P, R]):  # noqa: N801 - a decorator
    """A method of steps, as callers see it."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Talk[R]]) -> None:
        self._steps = steps

        def method(self: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
            return self._service.do(steps(self, *args, **kwargs))

        self._method: Any = update_wrapper(method, steps)
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, instance: Asynchronous, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...
    @overload
    def __get__(self, instance: Synchronous, owner: type) -> Callable[P, R]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self._method if instance is None else self._method.__get__(instance, owner)


class asked_property(Generic[R]):  # noqa: N801 - a decorator
    """A property of steps: `query.final`, or `await query.final`."""

    def __init__(self, steps: Callable[[Any], Talk[R]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> asked_property[R]: ...
    @overload
    def __get__(self, instance: Asynchronous, owner: type) -> Coroutine[Any, Any, R]: ...
    @overload
    def __get__(self, instance: Synchronous, owner: type) -> R: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else instance._service.do(self._steps(instance))
