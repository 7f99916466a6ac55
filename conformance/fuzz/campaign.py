"""A search from its first kept trial to its last round, as a run that console and files follow like any other."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np

from tileproof.conformance.environment import capture
from tileproof.conformance.events import CaseFinished, Event, RunFinished, RunStarted
from tileproof.conformance.fuzz.corpus import Corpus
from tileproof.conformance.fuzz.round_work import Done, Player, Setup, Work
from tileproof.conformance.fuzz.strategy import by_contract
from tileproof.conformance.fuzz.trial import Trial
from tileproof.conformance.session import Plan, Run
from tileproof.conformance.tally import AGREE, ERROR, Tally

ROUND = 20
"""Trials that are drawn before another contract has its turn."""

LEAST_SLICE_S = 2.0
"""Of a round: less would go into compiling alone."""

MAX_LOST = 3
"""Rounds lost one after another: what loses them is not the trials."""

MAX_BEGUN = 64
"""Kept trials that one round is told of."""


@dataclass(frozen=True)
class Search:
    """What is searched.

    Args:
        contracts: names, in turns.
        setup: of its rounds.
        corpus: folder of kept trials.
        seed: of the whole search.
        examples: trials to draw; None where time ends it.
        seconds: after which nothing more is drawn; None where the count ends it.
    """

    contracts: tuple[str, ...]
    setup: Setup
    corpus: Path
    seed: int = 0
    examples: int | None = None
    seconds: float | None = None

    def slice_s(self, width: int) -> float:
        """Seconds of one round, of `width` at a time: every contract has two, however dear its trials are."""
        return max(LEAST_SLICE_S, width * (self.seconds or 0) / (2 * len(self.contracts)))


@dataclass(frozen=True)
class LostRound:
    """A round that could not be played, and why."""

    work: Work
    reason: str

    def __str__(self) -> str:
        return f"{self.work.contract}: {self.work.examples} trials of seed {self.work.seed} lost: {self.reason}"


class Crew(Protocol):
    """Who plays rounds: this process, several, or a cluster."""

    @property
    def width(self) -> int:
        """Rounds that are played at a time."""

    @property
    def room(self) -> bool:
        """Whether a further round may be handed out now."""

    @property
    def is_working(self) -> bool:
        """Whether a round runs, or waits to."""

    def hand_out(self, work: Work) -> None:
        """Begin a round."""

    def take(self) -> Iterator[Done | LostRound]:
        """Wait for a round to end, or for room: what came of it, or that it was lost."""

    def stop(self) -> Iterator[Done | LostRound]:
        """After Ctrl-C: what rounds that run have found, or that it is lost."""

    def close(self) -> None:
        """Let everything go."""


@dataclass
class Alone:
    """Plays rounds in this process, one after another."""

    player: Player
    width = 1
    _work: list[Work] = field(default_factory=list)

    @property
    def room(self) -> bool:
        """See `Crew`."""
        return not self._work

    @property
    def is_working(self) -> bool:
        """See `Crew`."""
        return bool(self._work)

    def hand_out(self, work: Work) -> None:
        """See `Crew`."""
        self._work.append(work)

    def take(self) -> Iterator[Done | LostRound]:
        """See `Crew`."""
        while self._work:
            yield self.player.play(self._work.pop())
            if self.player.interrupted:
                raise KeyboardInterrupt

    def stop(self) -> Iterator[Done | LostRound]:
        """See `Crew`; its round is told before the interrupt goes on."""
        return iter(())

    def close(self) -> None:
        """See `Crew`."""
        self.player.close()


class Campaign(Run):
    """One search.

    Attributes:
        drawn: trials handed out so far.
        shrinking: trials that only served to shrink.
        kept: how many trials this search has added to the corpus.
        wrong: what is wrong with files of the corpus.
        lost: rounds that nobody could play: a search that found nothing is then none that may say so.
        barren: contracts of which nothing that can run could be drawn.
        reached: trials that ended on the first target, by contract and route.
        lines: of PTX that trials ran, by contract, of those whose lines were counted.

    Args:
        search: what is searched.
        crew: who plays.
    """

    def __init__(self, search: Search, crew: Crew) -> None:
        setup = search.setup
        super().__init__(Plan((), setup.places, "fuzz", None, budget_s=search.seconds, page=setup.page))
        self.search = search
        self.tally = Tally(setup.targets)
        self.corpus = Corpus(search.corpus)
        self.drawn = self.shrinking = self.kept = 0
        self.wrong: list[str] = []
        self.lost: list[LostRound] = []
        self.barren: set[str] = set()
        self.reached: dict[str, Counter[str]] = {name: Counter() for name in search.contracts}
        self.lines: dict[str, set[str]] = {name: set() for name in search.contracts}
        self._losses = 0
        self._crew = crew
        self._known: dict[str, dict[str, str]] = {name: {} for name in search.contracts}
        self._begun: Mapping[str, tuple[Trial, ...]] = {}

    def events(self) -> Iterator[Event]:
        """Search; the last event is RunFinished."""
        search = self.search
        name = f"fuzz, seed {search.seed}"
        start = RunStarted(
            name, search.examples or 0, self.plan.coordinates, search.setup.fault, capture(), self.plan.page
        )
        yield from self._counted((start,))
        yield from self._counted(self.all_cases())
        for event in self._closing("the search has ended"):
            missed = self.lost or self.barren or search.setup.fault is not None
            if isinstance(event, RunFinished) and event.exit_code == AGREE and missed:
                yield replace(event, exit_code=ERROR)
            else:
                yield event

    def interrupted(self) -> Iterator[Event]:
        """See `Run.interrupted`; what rounds had found comes first."""
        yield from self._counted(event for one in self._crew.stop() for event in self._heard(one))
        yield from super().interrupted()

    def all_cases(self) -> Iterator[Event]:
        """Kept trials first, then rounds, contracts in turns."""
        kept, self.wrong = self.corpus.read(self.search.contracts)
        self._begun = by_contract([one.trial for one in kept])
        works = self._works()
        more = True
        while True:
            while more and self._crew.room:
                ends = self.spent or self._losses >= MAX_LOST
                work = None if ends else next(works, None)  # made now, with all that is known by now
                if work is None:
                    more = False
                else:
                    self._crew.hand_out(work)
            for one in self._crew.take():
                yield from self._heard(one)
            if not more and not self._crew.is_working:
                return

    def close(self) -> None:
        """Let all devices and processes go."""
        self._crew.close()

    @property
    def signatures(self) -> int:
        """How many different ones were found."""
        return sum(map(len, self._known.values()))

    def _works(self) -> Iterator[Work]:
        for name in self.search.contracts:
            if self._begun.get(name):
                yield self._work(name, -1, 0, self._begun[name])
        turns: Counter[str] = Counter()
        for number in count():
            left = ROUND if self.search.examples is None else min(ROUND, self.search.examples - self.drawn)
            if left <= 0 or self.barren == set(self.search.contracts):
                return
            name = self.search.contracts[number % len(self.search.contracts)]
            if name in self.barren:
                continue
            self.drawn += left
            yield self._work(name, turns[name], left)
            turns[name] += 1

    def _work(self, name: str, turn: int, examples: int, again: tuple[Trial, ...] = ()) -> Work:
        place = self.search.contracts.index(name)
        seed = int(np.random.SeedSequence([self.search.seed, place, turn + 1]).generate_state(1)[0])
        left = None if self.search.seconds is None else max(0.0, self.search.seconds - self.seconds)
        if left is not None and examples:
            left = min(left, self.search.slice_s(self._crew.width))
        begun = self._begun.get(name, ())[-MAX_BEGUN:]
        return Work(name, seed, examples, dict(self._known[name]), begun, again, left, max(0, turn))

    def _heard(self, one: Done | LostRound) -> Iterator[Event]:
        if isinstance(one, LostRound):
            self.lost.append(one)
            self._losses += 1
            return
        self._losses = 0
        yield from self._done(one)

    def _done(self, done: Done) -> Iterator[Event]:
        name = done.work.contract
        self.barren |= {name} if done.is_barren else set()
        ended = (event for event in done.events if isinstance(event, CaseFinished))
        self.reached[name].update(one.route for one in ended if one.target is self.search.setup.targets[0])
        self.lines[name].update(*(one.lines for one in done.shows))
        self._known[name] |= done.crashes
        self.shrinking += done.shrinking
        for one in done.shows:
            if self.corpus.keep(one.trial, one.why, one.lines):
                self.kept += 1
                self._begun = {**self._begun, name: (*self._begun.get(name, ()), one.trial)}
        yield from done.events
