"""Jobs here, in processes of their own, and on a Dask cluster: the same results, and errors that say whose."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

import sardonyx as sx
from sardonyx.workers import Dask, Executor, InProcess, Processes, WorkerDied, executor_named


def job(function: Callable[..., Any], *arguments: Any) -> Any:
    """A job that any process can unpickle."""
    return SimpleNamespace(run=partial(function, *arguments))


def check_results_and_errors(workers: Executor) -> None:
    futures = [workers.submit(job(pow, 2, n)) for n in range(3)]
    wrong = workers.submit(job(int, "no number"))
    ours = workers.submit(job(executor_named, "nowhere"))
    assert [f.result(60) for f in futures] == [1, 2, 4]
    with pytest.raises(ValueError, match="no number"):
        wrong.result(60)
    with pytest.raises(sx.InputError, match="workers 'nowhere'"):
        ours.result(60)


def test_in_this_process() -> None:
    with InProcess() as workers:
        check_results_and_errors(workers)
        assert workers.submit(job(os.getpid)).result() == os.getpid()


def test_in_processes() -> None:
    with Processes(2) as workers:
        check_results_and_errors(workers)


def test_a_crash_loses_only_its_job() -> None:
    with Processes(2) as workers:
        crash, ended, fine = (workers.submit(j) for j in (job(os.abort), job(os._exit, 3), job(pow, 2, 5)))
        with pytest.raises(WorkerDied, match="a worker died: SIGABRT"):
            crash.result()
        with pytest.raises(WorkerDied, match="a worker died: exit status 3"):
            ended.result()
        assert fine.result() == 32


def test_what_a_job_prints_is_no_part_of_its_answer() -> None:
    with Processes() as workers:
        assert workers.submit(job(print, "hello")).result() is None


def test_a_job_that_takes_too_long_is_ended() -> None:
    began = time.monotonic()
    with Processes(timeout=0.5) as workers, pytest.raises(WorkerDied, match=r"ended after 0\.5 s"):
        workers.submit(job(time.sleep, 60)).result()
    assert time.monotonic() - began < 20


def test_names_of_executors() -> None:
    assert isinstance(executor_named("here"), InProcess)
    assert isinstance(executor_named("processes"), Processes)
    with pytest.raises(sx.InputError, match="there are 'here', 'processes', and addresses"):
        executor_named("elsewhere")


@pytest.mark.skipif(find_spec("distributed") is not None, reason="the extra dask is installed")
def test_without_dask_a_cluster_is_an_error_that_says_what_to_install() -> None:
    with pytest.raises(sx.UnsupportedError, match=r"install sardonyx\[dask\]"):
        Dask("tcp://127.0.0.1:1")


@pytest.mark.skipif(find_spec("distributed") is None, reason="the extra dask is not installed")
def test_on_a_cluster() -> None:
    from distributed import Client, LocalCluster

    cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        with Dask(client) as workers:
            check_results_and_errors(workers)
            assert workers.submit(job(os.getpid)).result(60) != os.getpid()
        with executor_named(cluster.scheduler_address) as workers:
            assert workers.submit(job(pow, 2, 6)).result(60) == 64
