"""Workers on a Ray cluster, which are handed one task at a time, and what becomes of a task whose worker is lost."""

import importlib
import logging
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tileproof.oracle.refusal import Refusal

Task = TypeVar("Task", bound=Hashable)
Answer = TypeVar("Answer")

LOCAL = "local"
"""In place of an address: a cluster of processes on this machine, for as long as the run takes."""

MAX_LOSSES = 2
"""Workers that one task may lose: what kills the second one too is the task."""
MAX_DEATHS = 8
"""Workers lost one after another without an answer between them: what kills them is not the tasks."""


@dataclass(frozen=True)
class Lost(Generic[Task]):
    """A task without an answer, and why."""

    task: Task
    reason: str


@dataclass(frozen=True)
class Answered(Generic[Task, Answer]):
    """A task and its answer."""

    task: Task
    answer: Answer


class Servant(Generic[Task, Answer]):
    """What runs on the cluster: a function made there, once, and called for each task."""

    def __init__(self, make: Callable[[], Callable[[Task], Answer]]) -> None:
        self._do = make()

    def do(self, task: Task) -> Answer:
        """One task."""
        return self._do(task)


@dataclass(frozen=True)
class Cluster:
    """Which cluster, and how many workers of it.

    Args:
        address: of its head as Ray takes it, "auto" for the one that this machine is of, or LOCAL.
        workers: how many; 0 for one to each GPU, or each processor core.
        gpus: of each worker.
    """

    address: str = LOCAL
    workers: int = 0
    gpus: int = 0


def load_ray() -> Any:
    """Ray. Raises: Refusal where it is not installed."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise Refusal(f"Ray cannot be imported: {error}", hint='install "tileproof[cluster]"') from None


@dataclass
class Actors(Generic[Task, Answer]):
    """Workers of a cluster.

    Attributes:
        count: how many there are at most.

    Args:
        make: makes, on a worker, the function that does tasks.
        cluster: where, and how many.
        ray: the library.
    """

    make: Callable[[], Callable[[Task], Answer]]
    cluster: Cluster
    ray: Any = field(default_factory=load_ray)

    def __post_init__(self) -> None:
        self._connect()
        self._idle: list[Any] = []
        self._busy: dict[Any, tuple[Any, Task]] = {}
        self._again: deque[Task] = deque()
        self._losses: Counter[Task] = Counter()
        self._deaths = 0
        self.count = self.cluster.workers or self._suitable()

    @property
    def room(self) -> bool:
        """Whether a task may be handed out."""
        return not self._again and len(self._busy) < self.count

    def hand_out(self, task: Task) -> None:
        """Begin a task, on a worker of before or a new one."""
        worker = self._idle.pop() if self._idle else self._new()
        self._busy[worker.do.remote(task)] = (worker, task)

    def take(self) -> Iterator[Answered[Task, Answer] | Lost[Task]]:
        """Wait until a task ends; nothing where none runs. Raises: what a task raised."""
        while self._again and len(self._busy) < self.count:
            self.hand_out(self._again.popleft())
        if not self._busy:
            return
        (ready,), _ = self.ray.wait(list(self._busy), num_returns=1)
        worker, task = self._busy.pop(ready)
        try:
            answer = self.ray.get(ready)
        except self._dead() as death:
            yield from self._bury(task, f"{type(death).__name__}: {str(death).splitlines()[0]}")
            return
        self._deaths = 0
        self._idle.append(worker)
        yield Answered(task, answer)

    @property
    def is_working(self) -> bool:
        """Whether a task is running, or waits for another worker."""
        return bool(self._busy or self._again)

    @property
    def running(self) -> tuple[Task, ...]:
        """Tasks that have no answer yet."""
        return (*(task for _, task in self._busy.values()), *self._again)

    def close(self) -> None:
        """End all workers, and the cluster where it was this run's own."""
        for worker in (*self._idle, *(worker for worker, _ in self._busy.values())):
            self.ray.kill(worker)
        self._idle, self._busy = [], {}
        self.ray.shutdown()

    def _bury(self, task: Task, reason: str) -> Iterator[Lost[Task]]:
        self._losses[task] += 1
        self._deaths += 1
        if self._deaths >= MAX_DEATHS:
            raise Refusal(f"{self._deaths} workers of the cluster were lost one after another", hint=reason)
        if self._losses[task] >= MAX_LOSSES:
            yield Lost(task, f"{self._losses[task]} workers that ran it were lost: {reason}")
        else:
            self._again.append(task)

    def _connect(self) -> None:
        address, workers = self.cluster.address, self.cluster.workers
        alone = {"num_cpus": workers or None, "include_dashboard": False}
        own = alone if address == LOCAL else {"address": address}
        try:
            self.ray.init(log_to_driver=False, logging_level=logging.ERROR, **own)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise Refusal(f"no cluster at {address!r}: {reason}", hint="start one, or give --cluster local") from None

    def _suitable(self) -> int:
        resources = self.ray.cluster_resources()
        kind, each = ("GPU", self.cluster.gpus) if self.cluster.gpus else ("CPU", 1)
        return max(1, int(resources.get(kind, 0) // each))

    def _new(self) -> Any:
        kind = self.ray.remote(num_cpus=1, num_gpus=self.cluster.gpus, max_restarts=0)(Servant)
        return kind.remote(self.make)

    def _dead(self) -> tuple[type[Exception], ...]:
        names = ("RayActorError", "WorkerCrashedError", "NodeDiedError", "OutOfMemoryError", "ObjectLostError")
        return tuple(getattr(self.ray.exceptions, name) for name in names if hasattr(self.ray.exceptions, name))
