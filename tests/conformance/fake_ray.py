"""As much of Ray as the workers of a cluster use, in this process: what dies, and when, is said by the test."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any


class RayActorError(Exception):
    """A worker is lost."""


class FakeRay:
    """A cluster whose workers run when they are asked for an answer.

    Args:
        dies: whether the worker of this number dies at this task.
        resources: of the cluster.
    """

    def __init__(self, dies: Callable[[int, object], bool] = lambda worker, task: False, **resources: float) -> None:
        self.exceptions = SimpleNamespace(RayActorError=RayActorError)
        self.resources = resources or {"CPU": 2.0}
        self.made: list[dict[str, object]] = []
        self.killed = 0
        self.is_up = False
        self._dies = dies

    def init(self, **options: object) -> None:
        if options.get("address") == "nowhere":
            raise ConnectionError("Could not find any running Ray instance.\nmore")
        self.is_up = True

    def shutdown(self) -> None:
        self.is_up = False

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def remote(self, **options: object) -> Callable[[type], Any]:
        def kind(cls: type) -> Any:
            return SimpleNamespace(remote=lambda make: self._worker(options, cls(make)))

        return kind

    def wait(self, references: Sequence[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        return [references[-1]], list(references[:-1])

    def get(self, reference: Any) -> Any:
        number, servant, task = reference
        if self._dies(number, task):
            raise RayActorError("The actor died: its node has gone.\nmore")
        return servant.do(task)

    def kill(self, worker: object) -> None:
        self.killed += 1

    def _worker(self, options: dict[str, object], servant: Any) -> Any:
        self.made.append(options)
        number = len(self.made)
        return SimpleNamespace(do=SimpleNamespace(remote=lambda task: (number, servant, task)))
