"""A process that runs tasks over history for others: it reads committed files, writes none, and may die alone.

    parent ──▶ length, pickled (directory, task, what to give back) ──▶ worker
    parent ◀── length, pickled WorkerAnswer, or what was raised     ◀── worker

The memory that it may take beyond what it has when it begins is limited by the system: a task that wants more ends the
process, and nobody else. It is the first one to go where the machine itself runs out of memory.
"""

from __future__ import annotations

import io
import os
import pickle
import resource
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import polars as pl
import pyarrow as pa

from millstream.engine.epochs.caution import Trial
from millstream.engine.epochs.runner import InProcessRunner
from millstream.engine.epochs.task import EpochOutcome, EpochTask
from millstream.errors import Error, EvaluationError
from millstream.state.scratch import ScratchStore
from millstream.state.snapshot import state_names

MEMORY, NICE, CORES = "MILLSTREAM_WORKER_MEMORY", "MILLSTREAM_WORKER_NICE", "POLARS_MAX_THREADS"
_POOL = 64 << 20  # bytes of segments that it remembers
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class WorkerQuestion:
    directory: Path
    task: EpochTask
    with_states: bool
    shards: int


@dataclass(frozen=True)
class WorkerAnswer:
    """What a task did; the frames of its results, or also of its states, by name, and of all names the bytes."""

    outcome: EpochOutcome
    frames: dict[str, bytes]
    sizes: dict[str, int]


def send(stream: IO[bytes], content: bytes) -> None:
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """The next message; None where the other side has gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    content = stream.read(length)
    return content if len(content) == length else None


def answered(question: WorkerQuestion) -> WorkerAnswer:
    """What comes of a task."""
    store = ScratchStore(question.directory, _POOL)
    outcome = InProcessRunner(store, question.shards).run(question.task)
    results = [name for names in outcome.results.values() for name in names]
    states = [*state_names(outcome.states)]
    wanted = {*results, *(states if question.with_states else ())}
    sizes = {name: store.size(name) for name in {*results, *states}}
    return WorkerAnswer(outcome, {name: _packed(store.read(name)) for name in wanted}, sizes)


def _done(question: WorkerQuestion | Trial) -> WorkerAnswer | None:
    if isinstance(question, Trial):
        question.do()
        return None
    return answered(question)


def _packed(frame: pl.DataFrame) -> bytes:
    content, table = io.BytesIO(), frame.to_arrow()
    with pa.ipc.new_stream(content, table.schema) as writer:
        writer.write_table(table)
    return content.getvalue()


def unpacked(content: bytes) -> pl.DataFrame:
    found = pl.from_arrow(pa.ipc.open_stream(content).read_all())
    assert isinstance(found, pl.DataFrame)
    return found


def serve(asked: IO[bytes], said: IO[bytes]) -> None:
    """Answer until nobody asks any more."""
    send(said, b"ready")
    while (content := receive(asked)) is not None:
        try:
            question = pickle.loads(content)
            answer: WorkerAnswer | Exception | None = _done(question)
        except MemoryError:
            os._exit(1)  # as where memory is asked for by who cannot be told that there is none
        except Error as error:
            answer = error
        except Exception as error:  # whatever it is: the one who asked must hear of it
            answer = EvaluationError("the query failed where it was run", detail=repr(error))
        send(said, pickle.dumps(answer, protocol=5))


def limit(memory: int, nice: int) -> None:
    """Take no more memory than so much beyond what there is now, and only the time that others leave."""
    if nice:
        os.nice(nice)
    with suppress(OSError):  # not Linux, or not allowed
        Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = (data_bytes(os.getpid()) or 1 << 30) + memory
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def data_bytes(pid: int) -> int:
    """The bytes of memory of its own that a process has asked for, touched or not; 0 where the system does not tell."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmData:")).split()[1]) << 10
    return 0


def main() -> None:
    said = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what users' functions print is not an answer
    asked = os.fdopen(os.dup(0), "rb")
    pl.DataFrame({"a": [1]}).lazy().select(pl.col("a").sum()).collect()  # have its threads
    limit(int(os.environ.get(MEMORY, 0)), int(os.environ.get(NICE, 0)))
    with suppress(BrokenPipeError):  # who asks has gone
        serve(asked, said)
