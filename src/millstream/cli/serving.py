"""`millstream serve` and `millstream token`."""

from __future__ import annotations

import getpass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

import millstream as ms
from millstream.cli.showing import console, database, errors, or_exit
from millstream.cli.stopping import Stop, leave_later
from millstream.service.audit import FILE as AUDIT
from millstream.service.audit import AuditLog
from millstream.service.callers import Budget
from millstream.service.tokens import Tokens, expiry_of, span_of, tokens_of
from millstream.state.layout import check_can_be_new, has_manifest

DirectoryArgument = Annotated[Path | None, typer.Argument(help="The database's directory.")]
File = Annotated[Path | None, typer.Option("--tokens", help="A file of tokens, instead of the one in the directory.")]

token = typer.Typer(
    no_args_is_help=True, help="The tokens of a service: who may read, write, or do everything.", rich_markup_mode=None
)


def serve(
    db: DirectoryArgument = None,
    host: Annotated[str, typer.Option(help="The address to listen at; others than this machine's need tokens.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8787,
    tokens: File = None,
    tls_cert: Annotated[Path | None, typer.Option(help="A certificate, as PEM: serve by TLS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, as PEM.")] = None,
    audit: Annotated[Path | None, typer.Option(help="Where to write who changed what; else in the directory.")] = None,
    in_process: Annotated[bool, typer.Option("--in-process", help="Run in this process, without Spark.")] = False,
    max_request: Annotated[int, typer.Option(help="The bytes that a request may have; 0: any.", min=0)] = 64 << 20,
    rate: Annotated[float, typer.Option(help="Requests a second of each token or address; 0: any.", min=0)] = 1000,
    time_limit: Annotated[float, typer.Option(help="Seconds that an answer may take; 0: any.", min=0)] = 60,
    max_rows: Annotated[int, typer.Option(help="The rows that a request may have; 0: any.", min=0)] = 10_000_000,
    max_unpacked: Annotated[int, typer.Option(help="The bytes that a request may unpack to; 0: any.", min=0)] = 1 << 30,
    max_followers: Annotated[int, typer.Option(help="How many may follow queries at a time; 0: any.", min=0)] = 1000,
    max_connections: Annotated[int, typer.Option(help="Connections at a time; 0: any.", min=0)] = 4096,
    max_connections_per_address: Annotated[int, typer.Option(help="Of these, of one address; 0: any.", min=0)] = 2048,
    header_timeout: Annotated[float, typer.Option(help="Seconds for the headers of a request; 0: any.", min=0)] = 10,
    concurrent: Annotated[int, typer.Option(help="Pieces of work of a caller at a time; 0: any.", min=0)] = 64,
    workers: Annotated[int, typer.Option(help="Processes for ad-hoc queries; 0: none.", min=0)] = 2,
    worker_memory: Annotated[int, typer.Option(help="The bytes of memory that each of them may take.", min=0)] = 1
    << 30,
    log_format: Annotated[str, typer.Option(help="Lines of text, or of json for programs.")] = "text",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "warning",
    traces: Annotated[bool, typer.Option("--traces", help="Send traces of epochs, as OTEL_* variables say.")] = False,
) -> None:
    """Serve a database over HTTP, and read its sources meanwhile.

    SIGINT and SIGTERM end it with 0, within ten seconds; 1 means that it could not be served, 3 that it had to be left.
    """
    # Slow to import, and not needed by other commands.
    from millstream.service.audit import audit_of
    from millstream.service.certificates import Certificate
    from millstream.service.limits import BodyLimits, ConnectionLimits, ServiceLimits
    from millstream.service.logs import log_to
    from millstream.service.server import Address, Server, check_free, check_open_to
    from millstream.service.traces import exported_traces

    or_exit(lambda: log_to(log_format.lower(), log_level.lower()))
    tracing = or_exit(exported_traces) if traces else None
    known = tokens_of(db, tokens)
    address = Address(host, port)
    or_exit(lambda: check_open_to(address, known))
    or_exit(lambda: check_free(address))  # before a database is opened, or made, for nothing
    if (tls_cert is None) != (tls_key is None):
        raise typer.BadParameter("--tls-cert and --tls-key go together")
    certificate = None if tls_cert is None or tls_key is None else Certificate(tls_cert, tls_key)
    if certificate is not None:
        or_exit(certificate.check)
    with Stop() as stop:
        opened = or_exit(lambda: database(db, in_process))
        stop.again()
        try:
            if tracing is not None:
                opened.inspection.trace(tracing.tracer)
            limits = ServiceLimits(
                request_bytes=max_request,
                body=BodyLimits(max_rows, max_unpacked),
                requests_per_second=rate,
                seconds=time_limit,
                followers=max_followers,
                connections=ConnectionLimits(max_connections, max_connections_per_address, header_timeout),
                concurrent=concurrent,
                workers=workers,
                worker_memory=worker_memory,
            )
            server = or_exit(
                lambda: Server(
                    opened,
                    address,
                    version=ms.__version__,
                    tokens=known,
                    limits=limits,
                    certificate=certificate,
                    audit=audit_of(db, audit),
                    announce=lambda text: console().print(text, markup=False, highlight=False, soft_wrap=True),
                    stopping=leave_later,
                )
            )
            if not stop.came:
                server.serve()
        finally:
            opened.close()
            if tracing is not None:
                tracing.close()


@token.command()
def add(
    db: DirectoryArgument = None,
    name: Annotated[str, typer.Option(help="What to call it.")] = "default",
    role: Annotated[
        str, typer.Option(help="read, write or admin; write:alerts_* may write to such names only.")
    ] = "read",
    expires: Annotated[str, typer.Option(help="When it ends: after 90d, 12h or 30m, or an instant; else never.")] = "",
    tokens: File = None,
    concurrent: Annotated[int, typer.Option(help="Pieces of work at a time; 0: as all.", min=0)] = 0,
    seconds: Annotated[float, typer.Option(help="Seconds that an answer may take; 0: as all.", min=0)] = 0,
    answer_rows: Annotated[int, typer.Option(help="Rows of one answer or insert; 0: as all.", min=0)] = 0,
    answer_bytes: Annotated[int, typer.Option(help="Bytes of one answer or insert; 0: as all.", min=0)] = 0,
) -> None:
    """Make a token, and print it: it cannot be shown again."""
    budget = Budget(concurrent, seconds, answer_rows, answer_bytes)
    found = _tokens(db, tokens)
    secret = or_exit(lambda: found.add(name, role, budget, _expiry(expires)))
    _note(found, "add token", name, role=role)
    errors().print(f"the token {name} has the role {role}; it is kept as a hash only:", markup=False)
    typer.echo(secret)


@token.command(name="list")
def listed(db: DirectoryArgument = None, tokens: File = None) -> None:
    """The tokens that there are."""
    import pyarrow as pa

    from millstream.answers.aligned import aligned

    found = or_exit(lambda: _tokens(db, tokens).all())
    columns = {name: [getattr(each, name) for each in found] for name in ("name", "role", "created", "expires")}
    typer.echo(aligned(pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})))


@token.command()
def revoke(
    name: Annotated[str, typer.Argument(help="Which one.")], db: DirectoryArgument = None, tokens: File = None
) -> None:
    """Take a token back: a service refuses it from the next request on."""
    found = _tokens(db, tokens)
    or_exit(lambda: found.revoke(name))
    _note(found, "revoke token", name)
    typer.echo(f"the token {name} is revoked")


@token.command()
def rotate(
    name: Annotated[str, typer.Argument(help="Which one.")],
    db: DirectoryArgument = None,
    tokens: File = None,
    overlap: Annotated[
        str, typer.Option(help="How long the one before is still taken, as in 1h; 0m: not at all.")
    ] = "1h",
    expires: Annotated[str | None, typer.Option(help="When the new one ends; else as the one before.")] = None,
) -> None:
    """Make another text for a token, and print it: it cannot be shown again. For a while both are taken."""
    found, both = _tokens(db, tokens), or_exit(lambda: span_of(overlap))
    secret = or_exit(lambda: found.rotate(name, both, None if expires is None else _expiry(expires)))
    _note(found, "rotate token", name)
    errors().print(f"the token {name} has another text; the one before is taken for {overlap}:", markup=False)
    typer.echo(secret)


def _expiry(text: str) -> str:
    return expiry_of(text, datetime.now(UTC)) if text else ""


def _note(tokens: Tokens, did: str, name: str, **more: str) -> None:
    """Write down who did it, beside the tokens."""
    who = f"user {getpass.getuser()}"
    or_exit(lambda: AuditLog(tokens.file.with_name(AUDIT)).note(who, did, [name], **more))


def _tokens(db: Path | None, file: Path | None) -> Tokens:
    found = tokens_of(db, file)
    if found is None:
        raise typer.BadParameter("name the database's directory, or a file with --tokens")
    if db is not None and file is None:
        or_exit(lambda: _check_database(db))
    return found


def _check_database(path: Path) -> None:
    """Refuse a directory that neither is a database nor may become one."""
    if not path.is_dir():
        raise ms.StateError(
            f"there is no database {path}",
            hint=f"name its directory; for one that is yet to be made, `mkdir -p {path}` first",
        )
    if not has_manifest(path):
        check_can_be_new(path)
