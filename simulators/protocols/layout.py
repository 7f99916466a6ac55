"""States as rows of 64-bit words: which bits of which word each number has.

Shared numbers come first. The row of a process is one cell of neighbouring bits, its place highest, so that cells have
the order of the rows. Bit 63 of the first word is set in every state: a row of zeros is no state. A state of an
election of three blocks is one word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.protocols.model import Field, Model, State

WORD_BITS = 63
CELL_BITS = 56
PRESENT = 1 << WORD_BITS


@dataclass(frozen=True)
class Place:
    """Bits of a state: `bits` of them from `shift` on in word `word`."""

    word: int
    shift: int
    bits: int

    @property
    def mask(self) -> int:
        """Of the bits, at shift 0."""
        return (1 << self.bits) - 1


@dataclass(frozen=True)
class Layout:
    """Where the numbers of a model's states are.

    Args:
        words: of a state.
        shared: place of each shared number.
        cells: place of each process's row.
        within: by role, place of each number within a cell; `word` has no meaning there.
        roles: number of the role of each process.
        used: numbers of the shared ones that have bits.
    """

    words: int
    shared: tuple[Place, ...]
    cells: tuple[Place, ...]
    within: tuple[tuple[Place, ...], ...]
    roles: tuple[int, ...]
    used: tuple[int, ...]


def layout_of(model: Model) -> Layout:
    """The layout of a model's states. Raises: Refusal for a row of more than 56 bits."""
    room = _Room()
    shared = tuple(room.take(field.most.bit_length()) for field in model.fields)
    within = tuple(_within(role.row) for role in model.roles)
    cells = []
    for role, places in zip(model.roles, within, strict=True):
        bits = sum(place.bits for place in places)
        if bits > CELL_BITS:
            raise Refusal(f"{model.name}: a {role.name} has {bits} bits of its own; the most are {CELL_BITS}")
        cells += [room.take(bits) for _ in role.starts]
    roles = tuple(number for number, role in enumerate(model.roles) for _ in role.starts)
    used = tuple(number for number, place in enumerate(shared) if place.bits)
    return Layout(room.words, shared, tuple(cells), within, roles, used)


class _Room:
    """Words that fill up: the first one that has room for a field gets it."""

    def __init__(self) -> None:
        self._used = [0]

    @property
    def words(self) -> int:
        return len(self._used)

    def take(self, bits: int) -> Place:
        word = next((word for word, used in enumerate(self._used) if used + bits <= WORD_BITS), len(self._used))
        if word == len(self._used):
            self._used.append(0)
        self._used[word] += bits
        return Place(word, self._used[word] - bits, bits)


def _within(row: Sequence[Field]) -> tuple[Place, ...]:
    places: list[Place] = []
    shift = sum(field.most.bit_length() for field in row)
    for field in row:
        bits = field.most.bit_length()
        shift -= bits
        places.append(Place(0, shift, bits))
    return tuple(places)


def packed(layout: Layout, state: State) -> tuple[int, ...]:
    """The words of a state."""
    words = packed_shared(layout, state.shared)
    words[0] |= PRESENT
    for place, role, row in zip(layout.cells, layout.roles, state.rows, strict=True):
        words[place.word] |= packed_row(layout, role, row) << place.shift
    return tuple(words)


def packed_shared(layout: Layout, shared: Sequence[int]) -> list[int]:
    """The words of a state in which nothing but the shared numbers is set."""
    words = [0] * layout.words
    for number in layout.used:
        place = layout.shared[number]
        words[place.word] |= shared[number] << place.shift
    return words


def packed_row(layout: Layout, role: int, row: Sequence[int]) -> int:
    """The cell of a row."""
    return sum(value << place.shift for place, value in zip(layout.within[role], row, strict=True))


def unpacked_shared(layout: Layout, words: Sequence[int]) -> tuple[int, ...]:
    """The shared numbers of some words."""
    shared = [0] * len(layout.shared)
    for number in layout.used:
        place = layout.shared[number]
        shared[number] = words[place.word] >> place.shift & place.mask
    return tuple(shared)


def unpacked_row(layout: Layout, role: int, cell: int) -> tuple[int, ...]:
    """The row of a cell."""
    return tuple(_value(place, cell) for place in layout.within[role])


def _value(place: Place, word: int) -> int:
    return word >> place.shift & place.mask
