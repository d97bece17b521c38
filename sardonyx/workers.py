"""Jobs for workers: in this process, in processes of their own, or on a cluster.

A job is a picklable value with a method `run`, made of text and arrays, so that it means the same wherever it runs.  An
executor takes jobs and gives futures (`concurrent.futures.Future`); a job's exception comes back through its future.

    with Processes(count=1) as workers:
        future = workers.submit(job)
        result = future.result()
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from .runtime.errors import Error, InputError, UnsupportedError

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Job(Protocol[ResultT_co]):
    """Work that can be sent away: a picklable value."""

    def run(self) -> ResultT_co: ...


class WorkerDied(Error):
    """A worker's process ended before its job did; only that job is lost."""


class Executor:
    """Takes jobs. Used in a `with` statement, it is closed at its end."""

    def submit(self, job: Job[ResultT]) -> Future[ResultT]:
        """The future of the job's result."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the workers; jobs that have not begun are cancelled."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class InProcess(Executor):
    """Runs each job at once, here."""

    def submit(self, job: Job[ResultT]) -> Future[ResultT]:
        future: Future[ResultT] = Future()
        try:
            future.set_result(job.run())
        except Exception as e:
            future.set_exception(e)
        return future


class Processes(Executor):
    """Runs each job in a new process, `count` of them at a time: what crashes one job is no other's concern.

    A job that takes longer than `timeout` seconds is killed.
    """

    def __init__(self, count: int = 1, timeout: float | None = None) -> None:
        self.timeout = timeout
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="sardonyx-worker")

    def submit(self, job: Job[ResultT]) -> Future[ResultT]:
        return self._threads.submit(self._run, job)

    def _run(self, job: Job[ResultT]) -> ResultT:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
        try:
            done = subprocess.run(
                command,
                input=pickle.dumps(job),
                capture_output=True,
                env=environment,
                timeout=self.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as e:
            raise WorkerDied(f"a worker was ended after {self.timeout} s") from e
        if done.returncode:
            raise WorkerDied(f"a worker died: {ending(done.returncode)}{last_line(done.stderr)}")
        return answer(done.stdout)

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


class Dask(Executor):
    """Runs jobs on a Dask cluster: `client` is a `distributed.Client`, or the address of a scheduler.

    Needs the package `distributed` (the extra `dask`) here and on the workers, where sardonyx must be of this version.
    """

    def __init__(self, client: Any) -> None:
        if isinstance(client, str):
            try:
                from distributed import Client  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
            except ImportError as e:
                raise UnsupportedError("a cluster needs the package 'distributed': install sardonyx[dask]") from e
            try:
                self.client: Any = Client(client)
            except (OSError, ValueError) as e:
                raise InputError(f"no Dask scheduler at {client!r}: {e}") from e
            self._owned = True
        else:
            self.client, self._owned = client, False

    def submit(self, job: Job[ResultT]) -> Future[ResultT]:
        future: Future[ResultT] = Future()
        # as bytes, so that the cluster's protocol has no say in how a job is taken apart
        remote = self.client.submit(run_pickled, pickle.dumps(job), pure=False)

        def finish(remote: Any) -> None:
            try:
                future.set_result(pickle.loads(remote.result()))
            except Exception as e:
                future.set_exception(e)

        remote.add_done_callback(finish)
        return future

    def close(self) -> None:
        if self._owned:
            self.client.close()


class Answer(Generic[ResultT]):
    """What comes back from a process: a result, or an exception."""

    def __init__(self, run: Callable[[], ResultT]) -> None:
        self.result: ResultT | None = None
        self.error: Exception | None = None
        try:
            self.result = run()
        except Exception as e:
            self.error = e


def run_pickled(data: bytes) -> bytes:
    """A pickled job's result, pickled; its exception is raised."""
    return pickle.dumps(pickle.loads(data).run())


def serve() -> None:
    """The life of a process of `Processes`: a job from standard input, its answer to standard output."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed is no part of the answer
    outcome: Answer[Any] = Answer(pickle.loads(sys.stdin.buffer.read()).run)
    try:
        data = pickle.dumps(outcome)
    except Exception as e:  # an exception that holds what cannot be sent
        outcome.result, outcome.error = None, Error(f"{type(outcome.error or e).__name__}: {outcome.error or e}")
        data = pickle.dumps(outcome)
    with out:
        out.write(data)


def answer(data: bytes) -> Any:
    """The result in an answer; raises the exception in it."""
    outcome: Answer[Any] = pickle.load(io.BytesIO(data))
    if outcome.error is not None:
        raise outcome.error
    return outcome.result


def ending(status: int) -> str:
    """How a process ended, in words."""
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def last_line(text: bytes) -> str:
    """The last line that a process wrote, as the end of a message."""
    lines = text.decode(errors="replace").strip().splitlines()
    return f": {lines[-1]}" if lines else ""


def executor_named(name: str, timeout: float | None = None) -> Executor:
    """`here`, `processes`, or the address of a Dask scheduler such as `tcp://host:8786`. Raises InputError."""
    if name == "here":
        return InProcess()
    if name == "processes":
        return Processes(timeout=timeout)
    if "://" in name:
        return Dask(name)
    raise InputError(f"workers {name!r}: there are 'here', 'processes', and addresses such as 'tcp://host:8786'")
