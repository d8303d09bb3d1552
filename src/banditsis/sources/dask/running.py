"""Running a graph, on a cluster or with Dask's local schedulers, and what can go wrong."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from banditsis.progress import status
from banditsis.results import RoundError

#: How often Dask tries a task again that failed.
RETRIES = 3
#: Children of a node of the tree in which parts are added. Fixed, so that runs repeat exactly.
ARITY = 8
#: So long a run waits for a cluster that has no worker at all.
SECONDS_WITHOUT_WORKERS = 300.0
PAUSE = 0.001

Key = Hashable
Graph = dict[Any, Any]


def new_name(what: str) -> str:
    """A name for tasks that nobody else has; the dashboard shows all but its last part.

    Examples
    --------
    >>> new_name("sums").startswith("banditsis_sums-")
    True
    """
    step = status().round
    return f"banditsis_{f'round{step}_' if step else ''}{what}-{uuid.uuid4().hex}"


def add_tree(graph: Graph, leaves: Sequence[Key], name: str, combine: Callable[[Any], Any]) -> Key:
    """Add tasks that combine the leaves in order, a fixed number at a time, and return the root.

    Examples
    --------
    >>> graph = {}
    >>> add_tree(graph, ["a", "b"], "added", sum), graph
    (('added', 0, 0), {('added', 0, 0): (<built-in function sum>, ['a', 'b'])})
    """
    level, nodes = 0, list(leaves)
    while len(nodes) > 1 or level == 0:
        parents: list[Key] = []
        for k, start in enumerate(range(0, len(nodes), ARITY)):
            key = (name, level, k)
            graph[key] = (combine, nodes[start : start + ARITY])
            parents.append(key)
        level, nodes = level + 1, parents
    return nodes[0]


def run(
    graph: Mapping[Any, Any],
    wanted: Sequence[Key],
    watched: Mapping[Any, tuple[str, Callable[[], None]]] | None = None,
) -> list[Any]:
    """Values of the wanted keys.

    Parameters
    ----------
    graph : mapping
        Keys and tasks, with all that they need.
    wanted : sequence of keys
        What comes back.
    watched : mapping, optional
        Tasks to tell about: what to call them if they fail, and a function to be called when they are done.
    """
    import dask.base
    import dask.threaded

    watched = watched or {}
    graph = cull(graph, [*wanted, *watched])
    get = dask.base.get_scheduler() or dask.threaded.get
    client = cluster_of(get)
    if client is not None:
        return _run_on_cluster(client, graph, list(wanted), watched)
    return _run_here(get, graph, list(wanted), watched)


def cluster_of(get: Any) -> Any:
    """The client of a cluster, if that is who computes, or None."""
    client = getattr(get, "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


def cull(graph: Mapping[Any, Any], keys: Sequence[Key]) -> Graph:
    """The part of a graph that some keys need."""
    from dask.optimization import cull as needed

    return dict(needed(graph, list(keys))[0])


def _run_here(get: Any, graph: Graph, wanted: list[Key], watched: Mapping[Any, Any]) -> list[Any]:
    from dask.callbacks import Callback

    def done(key: Key, *_: Any) -> None:
        if key in watched:
            watched[key][1]()

    try:
        with Callback(posttask=done):
            return list(get(graph, wanted))
    except Exception as error:
        raise failure("", error) from error


def _run_on_cluster(client: Any, graph: Graph, wanted: list[Key], watched: Mapping[Any, Any]) -> list[Any]:
    import dask

    extra = [key for key in watched if key not in set(wanted)]
    # Weights and shifts are what has to be sent; of blocks within the graph the source has made a note.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        futures = client.get(graph, [*wanted, *extra], sync=False, retries=RETRIES)
    try:
        _wait(client, futures, watched, set(wanted))
        return list(client.gather(futures[: len(wanted)]))
    except BaseException:
        client.cancel(futures)
        raise


def _wait(client: Any, futures: list[Any], watched: Mapping[Any, Any], wanted: set[Key]) -> None:
    """Tell of every task that is done, let go of its value, and see that there is anyone to work."""
    from distributed import as_completed

    waiting, last_seen = as_completed(futures), time.monotonic()
    while not waiting.is_empty():
        batch = waiting.next_batch(block=False)
        for future in batch:
            name, tell = watched.get(future.key, ("", None))
            if future.status in ("lost", "pending"):  # its worker left; the scheduler makes it again
                waiting.add(future)
                continue
            if future.status != "finished":
                raise failure(name, future.exception() if future.status == "error" else None)
            if tell is not None:
                tell()
            if future.key not in wanted:  # those that need it keep it alive
                future.release()
        if batch:
            last_seen = time.monotonic()
            continue
        time.sleep(PAUSE)
        if time.monotonic() - last_seen > SECONDS_WITHOUT_WORKERS:
            if not client.scheduler_info(n_workers=1)["workers"]:
                raise failure("", None, f"no worker for {SECONDS_WITHOUT_WORKERS:.0f} seconds")
            last_seen = time.monotonic()


def failure(name: str, error: BaseException | None, why: str = "") -> RoundError:
    """An error that says which round could not be finished, and why."""
    step = status().round
    what = f"round {step}" if step else "a step before the first round"
    why = why or (
        "its result was lost, and cannot be made again (persist from a source that can be read again, and "
        "not with client.scatter)"
        if error is None
        else f"{type(error).__name__}: {error}"
    )
    made = RoundError(f"{what} could not be finished{f' ({name})' if name else ''}: {why}")
    made.__cause__ = error
    return made
