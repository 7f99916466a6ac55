"""Decoding of `membar` and `fence`.

`membar.cta`, `.gl` and `.sys` are `fence.sc.cta`, `.gpu` and `.sys`; a bare `fence` is `.acq_rel` (PTX ISA, "membar /
fence").
"""

from dataclasses import replace

from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.decoding.qualifiers import SCOPES
from tileproof.simulators.ptx.decoding.slots import Slots, check_count
from tileproof.simulators.ptx.program import FenceForm, FenceKind, Kind, Scope, StateSpace, Step
from tileproof.simulators.ptx.text.syntax import Instruction

_MEMBARS = {"cta": Scope.CTA, "gl": Scope.GPU, "sys": Scope.SYS}
#: acquires, releases, sequential
_SEMANTICS = {
    "sc": (True, True, True),
    "acq_rel": (True, True, False),
    "acquire": (True, False, False),
    "release": (False, True, False),
}
_BOTH = frozenset({StateSpace.GLOBAL, StateSpace.SHARED})
#: spaces, and whether shared memory of the cluster's other blocks is meant too
_PROXY_SPACES = {
    "": (_BOTH, True),
    "global": (frozenset({StateSpace.GLOBAL}), False),
    "shared::cta": (frozenset({StateSpace.SHARED}), False),
    "shared::cluster": (frozenset({StateSpace.SHARED}), True),
}


def _membar(slots: Slots, instruction: Instruction) -> Step:
    match instruction.qualifiers:
        case [level] if level in _MEMBARS:
            return _step(instruction, FenceForm(FenceKind.THREADS, scope=_MEMBARS[level], sequential=True))
        case ["proxy", *_]:
            return _fence(slots, instruction)
    raise not_modelled(instruction, "this form of membar is not modelled")


def _fence(slots: Slots, instruction: Instruction) -> Step:
    match instruction.qualifiers:
        case [scope] if scope in SCOPES:
            return _step(instruction, FenceForm(FenceKind.THREADS, scope=SCOPES[scope]))
        case [semantics, scope] if semantics in _SEMANTICS and scope in SCOPES:
            acquires, releases, sequential = _SEMANTICS[semantics]
            return _step(instruction, FenceForm(FenceKind.THREADS, acquires, releases, SCOPES[scope], sequential))
        case ["mbarrier_init", "release", "cluster"]:
            return _step(instruction, FenceForm(FenceKind.MBARRIER_INIT, False, True, Scope.CLUSTER))
        case ["proxy", "alias"]:
            return Step(Kind.NOTHING, opcode(instruction), where(instruction))  # one address for each place
        case ["proxy", "async", *space] if len(space) <= 1 and "".join(space) in _PROXY_SPACES:
            spaces, peers = _PROXY_SPACES["".join(space)]
            return _step(instruction, FenceForm(FenceKind.ASYNC_PROXY, spaces=spaces, peers=peers))
        case ["proxy", "tensormap::generic", semantics, scope] if semantics in _SEMANTICS and scope in SCOPES:
            acquires, releases, _ = _SEMANTICS[semantics]
            form = FenceForm(FenceKind.TENSOR_MAP_PROXY, acquires, releases, SCOPES[scope])
            check_count(instruction, len(instruction.operands), 2 * acquires)
            if not acquires:
                return _step(instruction, form)
            slot, offset = slots.address(instruction, instruction.operands[0])
            return _step(instruction, replace(form, offset=offset), (slot,))
    raise not_modelled(instruction, "this form of fence is not modelled")


def _step(instruction: Instruction, form: FenceForm, sources: tuple[int, ...] = ()) -> Step:
    return Step(Kind.FENCE, opcode(instruction), where(instruction), sources=sources, fence=form)


DECODERS = {"membar": _membar, "fence": _fence}
