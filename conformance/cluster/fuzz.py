"""A search on a cluster: a round is a task."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tileproof.conformance.cli_pages import contracts_of
from tileproof.conformance.cluster.actors import Actors, Answered, Cluster
from tileproof.conformance.fuzz.campaign import LostRound
from tileproof.conformance.fuzz.round_work import Done, Player, Setup, Work
from tileproof.conformance.registry import registered


@dataclass(frozen=True)
class Ticket:
    """A round as a task: known by its number."""

    number: int
    work: Work = field(compare=False)


class ClusterCrew:
    """Plays the rounds of a search on a cluster; see `campaign.Crew`.

    Args:
        setup: of the search.
        cluster: the workers.
        tell: is told of each round that ended.
    """

    def __init__(self, setup: Setup, cluster: Cluster, tell: Callable[[Done], None] = lambda done: None) -> None:
        self._setup = setup
        self._tell = tell
        self._workers: Actors[Ticket, Done] = Actors(partial(player_of_rounds, setup), cluster)
        self._count = 0

    @property
    def width(self) -> int:
        """See `Crew`."""
        return self._workers.count

    @property
    def room(self) -> bool:
        """See `Crew`."""
        return self._workers.room

    @property
    def is_working(self) -> bool:
        """See `Crew`."""
        return self._workers.is_working

    def hand_out(self, work: Work) -> None:
        """See `Crew`."""
        self._count += 1
        self._workers.hand_out(Ticket(self._count, work))

    def take(self) -> Iterator[Done | LostRound]:
        """See `Crew`."""
        while self._workers.is_working:
            ended = list(self._workers.take())
            for one in ended:
                if isinstance(one, Answered):
                    self._tell(one.answer)
                    yield one.answer
                else:
                    yield LostRound(one.task.work, one.reason)
            if ended:
                return

    def stop(self) -> Iterator[Done | LostRound]:
        """See `Crew`. Workers elsewhere are not asked: what they have found is lost."""
        yield from (LostRound(ticket.work, "interrupted") for ticket in self._workers.running)

    def close(self) -> None:
        """See `Crew`."""
        self._workers.close()


def player_of_rounds(setup: Setup) -> Callable[[Ticket], Done]:
    """On a worker: what plays a round."""
    registered(contracts_of([Path(setup.page)] if setup.page else [])).__enter__()  # for as long as the worker lives
    player = Player(setup)
    return lambda ticket: player.play(ticket.work)
