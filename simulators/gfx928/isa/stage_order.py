"""The order that a pipelined stage must have, rule by rule, on the instructions of one stage.

    global_load (next stage)  ->  v_mmac (this stage)  ->  s_waitcnt vmcnt(0)  ->  ds_write (of what was loaded)
    ->  s_waitcnt lgkmcnt(0)  ->  s_barrier

Example of a stage that looks faster and is wrong: the compiler made one load of two that the source has, so that both
stores write the same registers. The order is right; the number of sites is not.

Source: HuangPuStar/MetaInfer int8-w8a8-gemm-prefill/references/wqkv-a-m3072-prefetch-isa.md @812e007f, "ISA audit";
int8-w8a8-gemm-foundations/SKILL.md @f3ac90ad section 3.1.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tileproof.simulators.gfx928.isa.instruction import Instruction
from tileproof.simulators.gfx928.isa.stages import BARRIER, PRODUCT, Stage

LOAD = "global_load_dwordx4"
#: Cache modifiers of a load; the accepted kernels have none.
CACHE = frozenset({"glc", "slc", "dlc", "nt", "sc0", "sc1", "lds"})
#: All that may be written by hand in a stage.
RAW_ALLOWED = ("s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)", "s_barrier")


class Rule(StrEnum):
    """What a stage must keep to."""

    LOAD_SITES = "the loads that the source has"
    PRODUCT_SITES = "the products that the source has"
    STORE_SITES = "the LDS writes that the source has"
    LOAD_FIRST = "every load of the next stage before the first product"
    NO_EARLY_WAIT = "no wait for these loads before the last product"
    VM_WAIT = "vmcnt(0) between the last product and the first LDS write"
    STORE_LAST = "every LDS write after the products"
    CONSUMES = "the LDS writes take what was loaded, each load once"
    UNTOUCHED = "nothing else touches what was loaded before it is written to LDS"
    LGKM_WAIT = "lgkmcnt(0) between the last LDS write and the barrier"
    BARRIER = "a barrier ends the stage"
    CACHE = "no cache modifier on a load"
    NO_SCRATCH = "no scratch access"
    RAW = "by hand only the two waits and the barrier"
    FIGURES = "the figures of the metadata"


@dataclass(frozen=True)
class Violation:
    """One rule broken."""

    rule: Rule
    message: str


@dataclass(frozen=True, kw_only=True)
class Sites:
    """How many instructions of a kind a stage must have; None for any number but 0."""

    loads: int | None = None
    products: int | None = None
    stores: int | None = None


@dataclass(frozen=True)
class _Places:
    """Where things are in a stage; loads and stores of the kinds that the rules know."""

    stage: Stage
    loads: tuple[int, ...]
    products: tuple[int, ...]
    stores: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether there is something of each, without which no order can be asked for."""
        return bool(self.loads and self.products and self.stores)

    @property
    def loaded(self) -> frozenset[str]:
        """Registers that the loads fill."""
        return frozenset().union(*(self.stage[i].registers(0) for i in self.loads))


def check_stage(stage: Stage, sites: Sites) -> Iterator[Violation]:
    """Every rule that a stage breaks.

    Raises:
        Refusal: a wait in numbers, or registers that there are not.
    """
    places = _Places(
        stage,
        _where(stage, lambda i: i.mnemonic == LOAD),
        _where(stage, lambda i: i.mnemonic == PRODUCT),
        _where(stage, lambda i: i.stores_lds),
    )
    yield from _sites(places, sites)
    yield from _modifiers(stage)
    if places.whole:
        for rule in (_load_first, _no_early_wait, _vm_wait, _store_last, _consumes, _untouched):
            yield from rule(places)
    yield from _end(places)


def _where(stage: Stage, accepts: Callable[[Instruction], bool]) -> tuple[int, ...]:
    return tuple(number for number, instruction in enumerate(stage) if accepts(instruction))


def _sites(places: _Places, sites: Sites) -> Iterator[Violation]:
    for rule, found, wanted, name in (
        (Rule.LOAD_SITES, places.loads, sites.loads, LOAD),
        (Rule.PRODUCT_SITES, places.products, sites.products, PRODUCT),
        (Rule.STORE_SITES, places.stores, sites.stores, "LDS writes"),
    ):
        if not found if wanted is None else len(found) != wanted:
            yield Violation(rule, f"{len(found)} {name}, required: {'some' if wanted is None else wanted}")
    for instruction in places.stage:
        other = instruction.reads_memory and not instruction.mnemonic.startswith((LOAD, "scratch_"))
        if sites.loads is not None and other:
            yield Violation(Rule.LOAD_SITES, f"{instruction} is none of the {sites.loads} {LOAD}")
        if sites.stores is not None and instruction.changes_lds:
            yield Violation(Rule.STORE_SITES, f"{instruction} is none of the {sites.stores} LDS writes")


def _modifiers(stage: Stage) -> Iterator[Violation]:
    for instruction in stage:
        cached = CACHE & instruction.words
        if instruction.mnemonic == LOAD and cached:
            yield Violation(Rule.CACHE, f"{instruction} has {' '.join(sorted(cached))}")
        if instruction.mnemonic.startswith("scratch_"):
            yield Violation(Rule.NO_SCRATCH, str(instruction))
        text = " ".join((instruction.mnemonic, *instruction.operands, *instruction.modifiers))
        if instruction.inline and text not in RAW_ALLOWED:
            yield Violation(Rule.RAW, str(instruction))


def _load_first(places: _Places) -> Iterator[Violation]:
    for number in places.loads:
        if number > places.products[0]:
            first = places.stage[places.products[0]]
            yield Violation(
                Rule.LOAD_FIRST, f"{places.stage[number]} stands after the first product, line {first.line}"
            )


def _no_early_wait(places: _Places) -> Iterator[Violation]:
    """A wait that leaves n waits for all but the last n: vector memory returns in order (Vega ISA, vmcnt)."""
    issued: list[bool] = []
    for number, instruction in enumerate(places.stage[: places.products[-1]]):
        if instruction.is_vector_memory:
            issued.append(number in places.loads)
        left = instruction.waits.get("vmcnt")
        if left is not None and any(issued[: len(issued) - left] if left < len(issued) else ()):
            last = places.stage[places.products[-1]]
            yield Violation(Rule.NO_EARLY_WAIT, f"{instruction} waits before the last product, line {last.line}")


def _vm_wait(places: _Places) -> Iterator[Violation]:
    first = _first_store_behind(places)
    between = places.stage[places.products[-1] : first]
    if not any(instruction.waits.get("vmcnt") == 0 for instruction in between):
        where = places.stage[first] if first < len(places.stage) else places.stage[places.stores[0]]
        yield Violation(Rule.VM_WAIT, f"{where}: no vmcnt(0) between the last product and this write")


def _first_store_behind(places: _Places) -> int:
    """The first LDS write after the products; those before are another rule's."""
    behind = [number for number in places.stores if number > places.products[-1]]
    return behind[0] if behind else len(places.stage)


def _store_last(places: _Places) -> Iterator[Violation]:
    last = places.products[-1]
    for number in places.stores:
        if number < last:
            line = places.stage[last].line
            yield Violation(Rule.STORE_LAST, f"{places.stage[number]} stands before the last product, line {line}")


def _consumes(places: _Places) -> Iterator[Violation]:
    stored = [places.stage[number] for number in places.stores]
    taken: set[str] = set()
    for store in stored:
        data = frozenset().union(*(store.registers(i) for i in range(1, len(store.operands))))
        if data - places.loaded:
            yield Violation(Rule.CONSUMES, f"{store} writes {_names(data - places.loaded)}, which no load filled")
        if data & taken:
            yield Violation(Rule.CONSUMES, f"{store} writes {_names(data & taken)} again")
        taken |= data
    if places.loaded - taken:
        yield Violation(Rule.CONSUMES, f"{_names(places.loaded - taken)} are loaded and not written to LDS")


def _untouched(places: _Places) -> Iterator[Violation]:
    """From each load to the LDS write of each of its registers nobody else reads or writes it."""
    for number in places.loads:
        held = places.stage[number].registers(0)
        for other in places.stage[number + 1 :]:
            touched = held & other.every_register
            if not touched:
                continue
            if other.stores_lds and not touched & other.registers(0):
                held -= touched
                continue
            yield Violation(Rule.UNTOUCHED, f"{other} touches {_names(touched)} of {places.stage[number]}")
            break


def _end(places: _Places) -> Iterator[Violation]:
    stage = places.stage
    if stage[-1].mnemonic != BARRIER:
        yield Violation(Rule.BARRIER, f"the loop has no {BARRIER}{_commented(stage)}")
    if not places.stores:
        return
    behind = stage[places.stores[-1] + 1 :]
    waits = [number for number, instruction in enumerate(behind) if instruction.waits.get("lgkmcnt") == 0]
    if not waits:
        yield Violation(Rule.LGKM_WAIT, f"no lgkmcnt(0) between {stage[places.stores[-1]]} and {stage[-1]}")
    for instruction in behind:
        if instruction.reads_lds:
            yield Violation(Rule.BARRIER, f"{instruction} reads LDS after the last write and before the barrier")


def _commented(stage: Stage) -> str:
    """A barrier behind `;` is a comment to the assembler."""
    hidden = [instruction.line for instruction in stage if BARRIER in instruction.comment]
    return f"; the one behind ; in line {hidden[0]} is a comment to LLVM's assembler" if hidden else ""


def _names(registers: frozenset[str] | set[str]) -> str:
    ordered: Sequence[str] = sorted(registers, key=lambda name: (name[0], int(name[1:])))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} .. {ordered[-1]}"
