"""Run tasks on a cluster, or with a local scheduler of Dask."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dask
from dask.base import get_scheduler
from dask.callbacks import Callback

from banditsis.core.parallel import RoundError
from banditsis.core.progress import status
from banditsis.sources.base import ignore_progress

#: Number of times that Dask runs a failed task again.
RETRIES = 3
LOST = "its result was lost and cannot be computed again (use client.persist instead of client.scatter)"


def task(what: str, function: Callable[..., Any], *given: Any) -> Any:
    """A call that Dask will make; the dashboard shows it by its round and what it computes."""
    step = status().round
    name = f"banditsis_{f'round{step}_' if step else ''}{what}-{uuid.uuid4().hex}"
    return dask.delayed(function, pure=False)(*given, dask_key_name=name)


def run(
    tasks: Sequence[Any],
    parts: Sequence[tuple[Any, int]] = (),
    tick: Callable[[int], None] = ignore_progress,
) -> list[Any]:
    """Compute some tasks; ``parts`` are tasks that these need, and the cells that ``tick`` then counts."""
    cells, n_done = {part.key: n for part, n in parts}, 0

    def report(key: Any) -> None:
        nonlocal n_done
        if key in cells:
            n_done += 1
            status().detail = f"block {n_done:,} of {len(cells):,}"
            tick(cells[key])

    if (client := find_client()) is not None:
        everything = {one.key: one for one in [*tasks, *(part for part, _ in parts)]}
        return _run_on_cluster(client, everything, len(tasks), report)
    try:
        with Callback(posttask=lambda key, *_: report(key)):
            return list(dask.compute(*tasks))
    except Exception as error:
        raise _failure(error) from error


def find_client() -> Any:
    """The client of the cluster that computes; None if a local scheduler does."""
    client = getattr(get_scheduler(), "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


def _run_on_cluster(
    client: Any, tasks: dict[str, Any], n_results: int, report: Callable[[Any], None]
) -> list[Any]:
    """Compute tasks, and return the results of the first of them."""
    from distributed import as_completed

    needed = set(list(tasks)[:n_results])
    # Weights and shifts have to be sent. If blocks are part of the graph, a note of the source says so.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        futures = client.compute(list(tasks.values()), retries=RETRIES)
    try:
        waiting = as_completed(futures)
        for future in waiting:
            if future.status in ("lost", "pending"):  # its worker left; the scheduler runs it again
                waiting.add(future)
                continue
            if future.status != "finished":
                raise _failure(future.exception() if future.status == "error" else LOST)
            report(future.key)
            if future.key not in needed:  # the tasks that need it keep it alive
                future.release()
        return list(client.gather(futures[:n_results]))
    except BaseException:
        client.cancel(futures)
        raise


def _failure(reason: BaseException | str) -> RoundError:
    """An error that says which round failed, and why."""
    step = status().round
    what = f"round {step}" if step else "a step before the first round"
    why = reason if isinstance(reason, str) else f"{type(reason).__name__}: {reason}"
    failure = RoundError(f"{what} could not be finished: {why}")
    failure.__cause__ = None if isinstance(reason, str) else reason
    return failure


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Use the cluster whose scheduler has this address, such as ``tcp://10.0.0.1:8786``."""
    from distributed import Client

    try:
        client = Client(address)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} ({error}): give its address, such as "
            "tcp://10.0.0.1:8786."
        ) from error
    with client:
        yield client
