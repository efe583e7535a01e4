"""A few processes that are kept ready to run tasks over history (`worker`): one that dies, or is ended because nobody
wants its answer any more, is replaced, and nobody else notices."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from millstream.engine.epochs.task import EpochOutcome, EpochTask
from millstream.engine.epochs.worker import (
    CORES,
    MEMORY,
    NICE,
    WorkerAnswer,
    WorkerQuestion,
    data_bytes,
    receive,
    send,
    unpacked,
)
from millstream.engine.works import Work
from millstream.errors import ClosedError, EvaluationError, LimitError, StateError

_GLANCE = 0.05  # seconds
_MOST_TASKS = 500  # after which a process makes room for a fresh one
_MOST_KEPT = 1 / 4  # of its memory: what one keeps between two tasks is missing to the next
_NICE = 5


class FoundStore:
    """What a task in another process has made."""

    def __init__(self, answer: WorkerAnswer) -> None:
        self._frames, self._sizes = answer.frames, answer.sizes

    def read(self, name: str) -> pl.DataFrame:
        if name not in self._frames:
            raise StateError(f"there is no segment {name}")
        return unpacked(self._frames[name])

    def size(self, name: str) -> int:
        return self._sizes[name]


class WorkerProcess:
    """One process, which does one thing at a time."""

    def __init__(self, memory: int) -> None:
        environment = {**os.environ, MEMORY: str(memory), NICE: str(_NICE), CORES: "1", "OMP_NUM_THREADS": "1"}
        # Arrow's own pool may reserve a gigabyte at once, which counts as taken: nothing would be left for the work.
        environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from millstream.engine.epochs.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for those who ask
        )
        self.tasks = self._at_first = 0
        self.is_over = False  # it has died, or is about to
        self._was_ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def was_ready(self) -> bool:
        """Whether it has begun to listen, and was asked something."""
        return self._was_ready

    @property
    def is_ready(self) -> bool:
        """Whether it has begun to listen."""
        said = self._process.stdout
        return self._was_ready or (said is not None and bool(select.select([said], [], [], 0)[0]))

    @property
    def kept(self) -> int:
        """The bytes of memory that it has taken, and not given back, since it began to listen."""
        return data_bytes(self.pid) - self._at_first if self._was_ready else 0

    def kill(self) -> None:
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def ask(self, question: bytes) -> bytes | None:
        """The answer, or None where the process has died."""
        answer = self._asked(question)
        self.is_over = answer is None
        return answer

    def _asked(self, question: bytes) -> bytes | None:
        asked, said = self._process.stdin, self._process.stdout
        assert asked is not None
        assert said is not None
        self.tasks += 1
        try:
            if not self._was_ready:
                if receive(said) is None:
                    return None
                self._was_ready, self._at_first = True, data_bytes(self.pid)
            send(asked, question)
            return receive(said)
        except (OSError, ValueError):
            return None


class Workers:
    """So many processes, each with so much memory of its own. They are started when they are first needed, or before by
    `warm`."""

    def __init__(
        self, directory: Path, count: int, memory: int, dumps: Callable[[object], bytes] = pickle.dumps
    ) -> None:
        self._directory, self.count, self.memory, self._dumps = directory, count, memory, dumps
        self._idle: list[WorkerProcess | None] = [None] * count
        self._all: set[WorkerProcess] = set()
        self._lock = threading.Condition()
        self._is_closed = False
        self.died = 0

    def warm(self) -> None:
        """Have all processes started."""
        with self._lock, suppress(ClosedError, LimitError):
            self._idle = [worker or self._started() for worker in self._idle]

    def run(
        self, task: EpochTask, work: Work, *, shards: int = 1, with_states: bool = False
    ) -> tuple[EpochOutcome, FoundStore]:
        """What a task makes, in a process of its own."""
        content = self._dumps(WorkerQuestion(self._directory, task, with_states, shards))
        with self._taken(work) as worker, work.ended_by(worker.kill):
            said = worker.ask(content)
        work.check()
        if said is None:
            self.died += 1
            raise EvaluationError(
                "the query ended the process that ran it",
                detail=f"it wanted more than the {self.memory:,} bytes of memory that it may take, or crashed",
                hint="ask for less: filter first, or shorten the windows; functions in Python may crash too",
            )
        answer = pickle.loads(said)
        if isinstance(answer, Exception):
            raise answer
        return answer.outcome, FoundStore(answer)

    @contextmanager
    def _taken(self, work: Work) -> Iterator[WorkerProcess]:
        worker = self._next(work)
        try:
            worker = worker or self._started()
            yield worker
        finally:
            self._give_back(worker, is_usable=not work.is_cancelled)

    def _next(self, work: Work) -> WorkerProcess | None:
        while True:
            work.check()
            with self._lock:
                if self._idle or self._lock.wait_for(lambda: self._idle, _GLANCE):
                    best = max(
                        self._idle, key=lambda worker: (worker is not None and worker.is_ready, worker is not None)
                    )
                    self._idle.remove(best)
                    return best

    def _started(self) -> WorkerProcess:
        with self._lock:
            if self._is_closed:
                raise ClosedError("the service is stopping", hint="ask again when it is back")
            try:
                worker = WorkerProcess(self.memory)
            except OSError as error:
                raise LimitError(f"no process could be started for the query: {error.strerror}") from None
            self._all.add(worker)
            return worker

    def _give_back(self, worker: WorkerProcess | None, *, is_usable: bool) -> None:
        if worker is not None and (not is_usable or self._is_worn(worker)):
            # The next one should be ready when it is needed, and who asked need not wait for that.
            threading.Thread(target=self._replace, args=[worker], name="millstream-worker", daemon=True).start()
            return
        with self._lock:
            self._idle.append(worker)
            self._lock.notify()

    def _is_worn(self, worker: WorkerProcess) -> bool:
        return worker.is_over or worker.tasks >= _MOST_TASKS or worker.kept > (self.memory or 1 << 30) * _MOST_KEPT

    def _replace(self, worker: WorkerProcess) -> None:
        worker.close()
        following = None
        with self._lock, suppress(ClosedError, LimitError):
            self._all.discard(worker)
            following = self._started()
        with self._lock:
            self._idle.append(following)
            self._lock.notify()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            found, self._all = self._all, set()
        for worker in found:
            worker.close()


def _readiness(worker: WorkerProcess | None) -> int:
    return 0 if worker is None else 2 if worker.is_ready else 1
