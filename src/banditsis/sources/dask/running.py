"""Run a graph of tasks, on a cluster or with a local scheduler of Dask."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import dask
import dask.base
import dask.threaded
from dask.callbacks import Callback
from dask.optimization import cull

from banditsis.core.parallel import RoundError
from banditsis.core.progress import status
from banditsis.sources.base import ignore_progress

#: Number of times that Dask runs a failed task again.
RETRIES = 3
#: Children of a node in the tree of additions; fixed, so results do not depend on the number of workers.
ARITY = 8
#: Seconds to wait for a cluster without workers.
MAX_SECONDS_WITHOUT_WORKERS = 300.0
PAUSE_SECONDS = 0.001

Key: TypeAlias = Hashable
Graph: TypeAlias = dict[Any, Any]


class Watched(NamedTuple):
    """A task whose end is reported: its name in messages, and the number of cells that it adds."""

    label: str
    cells: int


def new_name(what: str) -> str:
    """A unique name for tasks; the dashboard shows it without its last part."""
    step = status().round
    return f"banditsis_{f'round{step}_' if step else ''}{what}-{uuid.uuid4().hex}"


def add_tree(graph: Graph, leaves: Sequence[Key], name: str, combine: Callable[[Any], Any]) -> Key:
    """Add tasks to a graph that combine the leaves in order, and return the key of the root."""
    level, nodes = 0, list(leaves)
    while len(nodes) > 1 or level == 0:
        parents: list[Key] = []
        for k, start in enumerate(range(0, len(nodes), ARITY)):
            parents.append((name, level, k))
            graph[parents[-1]] = (combine, nodes[start : start + ARITY])
        level, nodes = level + 1, parents
    return nodes[0]


def run(
    graph: Graph,
    keys: Sequence[Key],
    watched: Mapping[Any, Watched] | None = None,
    tick: Callable[[int], None] = ignore_progress,
) -> list[Any]:
    """Compute the values of some keys of a graph.

    Each watched task that ends is counted in the status of the run, and ``tick`` is called with its cells.
    """
    watched, n_done = watched or {}, 0

    def report(key: Key) -> None:
        nonlocal n_done
        if key in watched:
            n_done += 1
            status().detail = f"block {n_done:,} of {len(watched):,}"
            tick(watched[key].cells)

    graph = dict(cull(graph, [*keys, *watched])[0])
    get = dask.base.get_scheduler() or dask.threaded.get
    client = find_client(get)
    if client is not None:
        return _run_on_cluster(client, graph, list(keys), watched, report)
    try:
        with Callback(posttask=lambda key, *_: report(key)):
            return list(get(graph, list(keys)))
    except Exception as error:
        raise _failure("", error) from error


def find_client(get: Any) -> Any:
    """The client of the cluster to which a scheduler function belongs; None if it runs locally."""
    client = getattr(get, "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


def _run_on_cluster(
    client: Any,
    graph: Graph,
    keys: list[Key],
    watched: Mapping[Any, Watched],
    report: Callable[[Key], None],
) -> list[Any]:
    others = [key for key in watched if key not in set(keys)]
    # Weights and shifts have to be sent. If blocks are part of the graph, a note of the source says so.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        futures = client.get(graph, [*keys, *others], sync=False, retries=RETRIES)
    try:
        for future in _ended(client, futures):
            if future.status != "finished":
                label = watched[future.key].label if future.key in watched else ""
                raise _failure(label, future.exception() if future.status == "error" else None)
            report(future.key)
            if future.key not in keys:  # the tasks that need it keep it alive
                future.release()
        return list(client.gather(futures[: len(keys)]))
    except BaseException:
        client.cancel(futures)
        raise


def _ended(client: Any, futures: list[Any]) -> Iterator[Any]:
    """The futures in the order in which they end; raises if there are no workers for too long."""
    from distributed import as_completed

    waiting, last_seen = as_completed(futures), time.monotonic()
    while not waiting.is_empty():
        batch = waiting.next_batch(block=False)
        for future in batch:
            if future.status in ("lost", "pending"):  # its worker left; the scheduler runs it again
                waiting.add(future)
            else:
                yield future
        if batch:
            last_seen = time.monotonic()
            continue
        time.sleep(PAUSE_SECONDS)
        if time.monotonic() - last_seen > MAX_SECONDS_WITHOUT_WORKERS:
            if not client.scheduler_info(n_workers=1)["workers"]:
                raise _failure("", None, f"no worker for {MAX_SECONDS_WITHOUT_WORKERS:.0f} seconds")
            last_seen = time.monotonic()


def _failure(label: str, error: BaseException | None, reason: str = "") -> RoundError:
    """An error that says which round failed, and why."""
    step = status().round
    what = f"round {step}" if step else "a step before the first round"
    if error is not None:
        reason = f"{type(error).__name__}: {error}"
    elif not reason:
        reason = (
            "its result was lost and cannot be computed again (persist data that can be read again instead "
            "of using client.scatter)"
        )
    failure = RoundError(f"{what} could not be finished{f' ({label})' if label else ''}: {reason}")
    failure.__cause__ = error
    return failure
