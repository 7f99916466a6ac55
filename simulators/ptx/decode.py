"""From a parsed entry to its decoded form: slots for operands, one step for each instruction.

What a mnemonic means is looked up in `_DECODERS`; everything that is arithmetic goes through `operation.resolve`. An
instruction, qualifier or operand form outside both is `NotModelled` with its PTX line and CUDA line.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tileproof.simulators.ptx.findings import Where
from tileproof.simulators.ptx.instruction_text import not_modelled, opcode, where
from tileproof.simulators.ptx.layout import (
    CONST_BASE,
    CONST_WINDOW,
    LOCAL_BASE,
    LOCAL_WINDOW,
    SHARED_BASE,
    SHARED_WINDOW,
    align_up,
    place,
    place_parameters,
)
from tileproof.simulators.ptx.operation import NotModelled, Operation, resolve
from tileproof.simulators.ptx.program import (
    SINK,
    Access,
    Kind,
    Program,
    ShuffleMode,
    StateSpace,
    Step,
    VoteMode,
)
from tileproof.simulators.ptx.qualifiers import memory_form
from tileproof.simulators.ptx.syntax import (
    TYPE_BYTES,
    Address,
    Entry,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)

SPECIALS = frozenset(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz") | {
    "%laneid",
    "%warpid",
    "%nwarpid",
    "%lanemask_eq",
    "%lanemask_le",
    "%lanemask_lt",
    "%lanemask_ge",
    "%lanemask_gt",
    "%dynamic_smem_size",
    "%total_smem_size",
}

_NO_EFFECT_ON_VALUES = frozenset({"membar", "fence", "prefetch", "prefetchu", "nanosleep", "griddepcontrol", "pmevent"})
_WINDOWS = {"shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "local": LOCAL_WINDOW, "const": CONST_WINDOW}


def decode_entry(module: Module, entry: Entry) -> Program:
    """Decode one kernel of a module.

    Raises:
        NotModelled: an instruction or a declaration that the device does not model.
    """
    return _Decoder(module, entry).program()


class _Decoder:
    """Slots and variable addresses of one kernel while its steps are made."""

    def __init__(self, module: Module, entry: Entry) -> None:
        self._entry = entry
        self._slots = {name: slot for slot, name in enumerate(entry.registers)}
        self._slot_bits = [_bits(type_) for type_ in entry.registers.values()]
        self._constants: dict[int, int] = {}
        self._constant_slots: dict[int, int] = {}
        self._special_slots: dict[str, int] = {}
        self._globals_used: dict[int, tuple[Variable, int]] = {}
        self._place_variables(module)

    def _place_variables(self, module: Module) -> None:
        everything = [*module.variables.values(), *self._entry.variables.values()]
        static = [v for v in everything if v.space == "shared" and v.count]
        dynamic = [v for v in everything if v.space == "shared" and not v.count]
        local = place((v for v in everything if v.space == "local"), LOCAL_BASE)
        constants = [v for v in everything if v.space == "const"]
        const = place(constants, CONST_BASE)
        shared = place(static, SHARED_BASE)
        self._dynamic_alignment = max((v.align for v in dynamic), default=1)
        self._shared_bytes = shared.size_bytes
        dynamic_base = SHARED_BASE + align_up(shared.size_bytes, self._dynamic_alignment)
        self._parameters = place_parameters(self._entry.parameters)
        self._local_bytes = local.size_bytes
        image = bytearray(const.size_bytes)
        for variable in constants:
            start = const.offsets[variable.name] - CONST_BASE
            image[start : start + variable.size_bytes] = variable.initial or bytes(variable.size_bytes)
        self._constant_image = bytes(image)
        self._addresses = {**shared.offsets, **local.offsets, **const.offsets}
        self._addresses |= {variable.name: dynamic_base for variable in dynamic}
        self._globals = {v.name: v for v in everything if v.space == "global"}

    def program(self) -> Program:
        entry = self._entry
        steps = tuple(self._step(instruction) for instruction in entry.instructions)
        limit = entry.directives.get("reqntid") or entry.directives.get("maxntid")
        return Program(
            name=entry.name,
            steps=(*steps, Step(Kind.EXIT, "(end of the kernel)", _end_of(entry))),
            slot_bits=tuple(self._slot_bits),
            constants=self._constants,
            specials={slot: name for name, slot in self._special_slots.items()},
            parameters=entry.parameters,
            parameter_offsets=tuple(self._parameters.offsets[p.name] for p in entry.parameters),
            parameter_bytes=self._parameters.size_bytes,
            shared_bytes=self._shared_bytes,
            dynamic_alignment=self._dynamic_alignment,
            local_bytes=self._local_bytes,
            constant_image=self._constant_image,
            globals_used=self._globals_used,
            thread_limit=(limit[0], limit[1], limit[2]) if limit else None,
            thread_exact="reqntid" in entry.directives,
        )

    def _step(self, instruction: Instruction) -> Step:
        step = self._body(instruction)
        guard = instruction.guard
        if guard is None:
            return step
        return replace(step, guard=self._slots[guard.register.name], guard_negated=guard.negated)

    def _body(self, instruction: Instruction) -> Step:
        decoder = _DECODERS.get(instruction.mnemonic)
        if decoder is not None:
            return decoder(self, instruction)
        try:
            operation = resolve(instruction.mnemonic, instruction.qualifiers)
        except NotModelled as error:
            raise not_modelled(instruction, error.message, error.hint) from error
        if operation is None:
            raise not_modelled(instruction, "this instruction is not modelled")
        return self.arithmetic(instruction, operation, instruction.operands)

    def arithmetic(self, instruction: Instruction, operation: Operation, operands: Sequence[Operand]) -> Step:
        """A step that computes `operation`: destinations first, sources after them, as PTX writes them."""
        head = operands[0]
        results: tuple[Operand, ...] = (head.first, head.second) if isinstance(head, Pair) else (head,)
        sources = [self.source(instruction, o, t) for o, t in zip(operands[1:], operation.sources, strict=False)]
        if len(operands) - 1 != len(operation.sources) or len(results) > len(operation.destinations):
            raise not_modelled(instruction, f"{len(operands)} operands do not fit {operation.name}")
        results += (Sink(),) * (len(operation.destinations) - len(results))
        targets = [self.destination(instruction, o, t) for o, t in zip(results, operation.destinations, strict=True)]
        return Step(
            Kind.ARITHMETIC,
            opcode(instruction),
            where(instruction),
            destinations=tuple(targets),
            sources=tuple(sources),
            operation=operation,
            narrow=self.narrow(sources, operation.sources),
            sign_from=self.sign_from(targets, operation.destinations),
        )

    def narrow(self, slots: Sequence[int], types: Sequence[str]) -> tuple[int, ...]:
        """Bits of each operand type where its register is wider, else 0."""
        return tuple(
            _bits(t) if slot not in self._constants and self._slot_bits[slot] > _bits(t) else 0
            for slot, t in zip(slots, types, strict=True)
        )

    def sign_from(self, slots: Sequence[int], types: Sequence[str]) -> tuple[int, ...]:
        """Bits to sign-extend from where a signed result goes to a wider register, else 0."""
        return tuple(
            _bits(t) if slot != SINK and t.startswith("s") and self._slot_bits[slot] > _bits(t) else 0
            for slot, t in zip(slots, types, strict=True)
        )

    def source(self, instruction: Instruction, operand: Operand, type_: str) -> int:
        """The slot of a source operand read as `type_`."""
        match operand:
            case Register(name):
                self._check_width(instruction, name, type_)
                return self._slots[name]
            case Immediate(bits, float_type):
                if float_type is not None and _bits(float_type) != _bits(type_):
                    raise not_modelled(instruction, f"an {float_type} immediate as an operand of type {type_}")
                return self.constant(bits & ((1 << _bits(type_)) - 1), _bits(type_))
            case Special(name):
                return self._special(instruction, name)
            case Symbol(name, offset):
                return self.symbol(instruction, name, offset)
            case Negated(register):
                raise not_modelled(instruction, f"the negated predicate operand !{register.name}")
            case _:
                raise not_modelled(instruction, f"an operand of the form {type(operand).__name__} here")

    def destination(self, instruction: Instruction, operand: Operand, type_: str) -> int:
        """The slot of a result of `type_`, or SINK."""
        if isinstance(operand, Sink):
            return SINK
        if not isinstance(operand, Register):
            raise not_modelled(instruction, f"a result of the form {type(operand).__name__}")
        self._check_width(instruction, operand.name, type_)
        return self._slots[operand.name]

    def _check_width(self, instruction: Instruction, register: str, type_: str) -> None:
        have = self._entry.registers[register]
        if (type_ == "pred") != (have == "pred") or _bits(have) < _bits(type_):
            raise not_modelled(instruction, f"register {register} of type .{have} as an operand of type .{type_}")

    def constant(self, bits: int, width: int = 64) -> int:
        """The slot that holds a constant."""
        slot = self._constant_slots.get(bits)
        if slot is None:
            slot = self._new_slot(width)
            self._constant_slots[bits] = slot
            self._constants[slot] = bits
        return slot

    def _new_slot(self, width: int) -> int:
        self._slot_bits.append(width)
        return len(self._slot_bits) - 1

    def _special(self, instruction: Instruction, name: str) -> int:
        if name == "WARP_SZ":
            return self.constant(32)
        if name not in SPECIALS:
            raise not_modelled(instruction, f"the special register {name} is not modelled")
        if name not in self._special_slots:
            self._special_slots[name] = self._new_slot(32)
        return self._special_slots[name]

    def symbol(self, instruction: Instruction, name: str, offset: int) -> int:
        """The slot that holds a variable's address in its own space."""
        if name in self._addresses:
            return self.constant(self._addresses[name] + offset)
        if name in self._parameters.offsets:
            raise not_modelled(instruction, f"the address of the parameter {name} as a value is not modelled")
        if name not in self._globals:
            raise not_modelled(instruction, f"the address of {name} is not modelled")
        slot = self._new_slot(64)
        self._constants[slot] = 0
        self._globals_used[slot] = (self._globals[name], offset)
        return slot

    def address(self, instruction: Instruction, operand: Operand) -> tuple[int, int]:
        """(slot, byte offset) of `[base + offset]`."""
        if not isinstance(operand, Address) or operand.coordinates is not None:
            raise not_modelled(instruction, "an address operand of this form is not modelled")
        match operand.base:
            case Register(name):
                return self._slots[name], operand.offset
            case Symbol(name, offset) if name in self._parameters.offsets:
                return self.constant(self._parameters.offsets[name]), offset + operand.offset
            case Symbol(name, offset):
                return self.symbol(instruction, name, offset), operand.offset
            case Immediate(bits):
                return self.constant(bits & 0xFFFF_FFFF_FFFF_FFFF), operand.offset

    def label(self, operand: Operand) -> int:
        """The step index of a label."""
        assert isinstance(operand, Label)
        return self._entry.labels[operand.name]


def _load(decoder: _Decoder, instruction: Instruction) -> Step:
    form = memory_form(instruction)
    slot, offset = decoder.address(instruction, instruction.operands[1])
    results = _elements(instruction.operands[0])
    _check_count(instruction, len(results), form.count)
    types = (form.type,) * form.count
    targets = [decoder.destination(instruction, o, t) for o, t in zip(results, types, strict=True)]
    return Step(
        Kind.LOAD,
        opcode(instruction),
        where(instruction),
        destinations=tuple(targets),
        sources=(slot,),
        access=Access(form.space, TYPE_BYTES[form.type], form.type.startswith("s"), offset, form.strong),
        sign_from=decoder.sign_from(targets, types),
    )


def _store(decoder: _Decoder, instruction: Instruction) -> Step:
    form = memory_form(instruction)
    if form.space in (StateSpace.CONST, StateSpace.PARAM):
        raise not_modelled(instruction, f"a store to .{form.space.value} is not modelled")
    slot, offset = decoder.address(instruction, instruction.operands[0])
    elements = _elements(instruction.operands[1])
    _check_count(instruction, len(elements), form.count)
    values = [decoder.source(instruction, element, form.type) for element in elements]
    return Step(
        Kind.STORE,
        opcode(instruction),
        where(instruction),
        sources=(slot, *values),
        access=Access(form.space, TYPE_BYTES[form.type], False, offset, form.strong),
    )


_ATOMIC_OPERATIONS = {
    "add": "add",
    "min": "min",
    "max": "max",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "exch": "exch",
    "cas": "cas",
}


def _atomic(decoder: _Decoder, instruction: Instruction) -> Step:
    form = memory_form(instruction)
    names = [q for q in instruction.qualifiers if q in _ATOMIC_OPERATIONS]
    if len(names) != 1 or form.count != 1:
        raise not_modelled(instruction, "this atomic operation is not modelled")
    returns = instruction.mnemonic == "atom"
    slot, offset = decoder.address(instruction, instruction.operands[1 if returns else 0])
    operands = instruction.operands[2 if returns else 1 :]
    _check_count(instruction, len(operands), 2 if names[0] == "cas" else 1)
    values = [decoder.source(instruction, operand, form.type) for operand in operands]
    target = decoder.destination(instruction, instruction.operands[0], form.type) if returns else SINK
    return Step(
        Kind.ATOMIC,
        opcode(instruction),
        where(instruction),
        destinations=(target,),
        sources=(slot, *values),
        operation=_atomic_operation(instruction, names[0], form.type, form.space),
        access=Access(form.space, TYPE_BYTES[form.type], False, offset, True),
        sign_from=decoder.sign_from((target,), (form.type,)),
    )


def _atomic_operation(instruction: Instruction, name: str, type_: str, space: StateSpace) -> Operation | None:
    """The combining step; None for exchange and compare-and-swap, which do not compute."""
    if name in ("exch", "cas"):
        return None
    if type_ not in ("u32", "s32", "b32", "u64", "s64", "b64", "f32"):
        raise not_modelled(instruction, f"an atomic of type .{type_} is not modelled")
    # PTX ISA, "atom": atom.add.f32 on global memory flushes subnormal inputs and results to sign-preserving zero;
    # on shared memory it does not.
    flush = ("ftz",) if type_ == "f32" and name == "add" and space is not StateSpace.SHARED else ()
    if flush and space is StateSpace.GENERIC:
        raise not_modelled(instruction, "atom.add.f32 on a generic address: global flushes subnormals, shared does not")
    return resolve(name, (*flush, type_))


_SHUFFLES = {mode.value: mode for mode in ShuffleMode}


def _shuffle(decoder: _Decoder, instruction: Instruction) -> Step:
    match instruction.qualifiers:
        case ("sync", mode, "b32") if mode in _SHUFFLES:
            pass
        case _:
            raise not_modelled(instruction, "only shfl.sync.{up,down,bfly,idx}.b32 is modelled")
    head, *sources = instruction.operands
    _check_count(instruction, len(sources), 4)
    results = (head.first, head.second) if isinstance(head, Pair) else (head, Sink())
    types = ("b32", "pred")
    return Step(
        Kind.SHUFFLE,
        opcode(instruction),
        where(instruction),
        destinations=tuple(decoder.destination(instruction, o, t) for o, t in zip(results, types, strict=True)),
        sources=tuple(decoder.source(instruction, o, "b32") for o in sources),
        mode=_SHUFFLES[mode],
    )


_VOTES = {mode.value: mode for mode in VoteMode}


def _vote(decoder: _Decoder, instruction: Instruction) -> Step:
    match instruction.qualifiers:
        case ("sync", "ballot", "b32"):
            mode, type_ = VoteMode.BALLOT, "b32"
        case ("sync", name, "pred") if name in _VOTES:
            mode, type_ = _VOTES[name], "pred"
        case _:
            raise not_modelled(instruction, "only vote.sync.{all,any,uni}.pred and vote.sync.ballot.b32 are modelled")
    target, predicate, members = instruction.operands
    return Step(
        Kind.VOTE,
        opcode(instruction),
        where(instruction),
        destinations=(decoder.destination(instruction, target, type_),),
        sources=(decoder.source(instruction, predicate, "pred"), decoder.source(instruction, members, "b32")),
        mode=mode,
    )


def _active_mask(decoder: _Decoder, instruction: Instruction) -> Step:
    target = decoder.destination(instruction, instruction.operands[0], "b32")
    return Step(Kind.ACTIVE_MASK, opcode(instruction), where(instruction), destinations=(target,))


def _barrier(decoder: _Decoder, instruction: Instruction) -> Step:
    qualifiers = [q for q in instruction.qualifiers if q != "cta"]
    if qualifiers == ["warp", "sync"]:
        members = decoder.source(instruction, instruction.operands[0], "b32")
        return Step(Kind.WARP_BARRIER, opcode(instruction), where(instruction), sources=(members,))
    if qualifiers not in (["sync"], ["sync", "aligned"]):
        raise not_modelled(instruction, "only bar.sync, barrier.sync and bar.warp.sync are modelled")
    sources = tuple(decoder.source(instruction, o, "b32") for o in instruction.operands)
    return Step(Kind.BARRIER, opcode(instruction), where(instruction), sources=sources)


def _branch(decoder: _Decoder, instruction: Instruction) -> Step:
    if set(instruction.qualifiers) - {"uni"}:
        raise not_modelled(instruction, "this branch form is not modelled")
    return Step(Kind.BRANCH, opcode(instruction), where(instruction), target=decoder.label(instruction.operands[0]))


def _exit(decoder: _Decoder, instruction: Instruction) -> Step:
    return Step(Kind.EXIT, opcode(instruction), where(instruction))


def _nothing(decoder: _Decoder, instruction: Instruction) -> Step:
    return Step(Kind.NOTHING, opcode(instruction), where(instruction))


def _mov(decoder: _Decoder, instruction: Instruction) -> Step:
    if len(instruction.operands) == 2 and len(instruction.qualifiers) == 1:
        target, value = instruction.operands
        bits = _bits(instruction.qualifiers[0])
        if isinstance(value, Vector):
            return _pack(decoder, instruction, target, value, bits)
        if isinstance(target, Vector):
            return _unpack(decoder, instruction, target, value, bits)
    operation = resolve("mov", instruction.qualifiers)
    if operation is None:
        raise not_modelled(instruction, "this form of mov is not modelled")
    return decoder.arithmetic(instruction, operation, instruction.operands)


def _pack(decoder: _Decoder, instruction: Instruction, target: Operand, vector: Vector, bits: int) -> Step:
    element = bits // len(vector.elements)
    sources = [decoder.source(instruction, o, f"b{element}") for o in vector.elements]
    return Step(
        Kind.PACK,
        opcode(instruction),
        where(instruction),
        destinations=(decoder.destination(instruction, target, f"b{bits}"),),
        sources=tuple(sources),
        element_bits=element,
        narrow=decoder.narrow(sources, (f"b{element}",) * len(sources)),
    )


def _unpack(decoder: _Decoder, instruction: Instruction, vector: Vector, value: Operand, bits: int) -> Step:
    element = bits // len(vector.elements)
    return Step(
        Kind.UNPACK,
        opcode(instruction),
        where(instruction),
        destinations=tuple(decoder.destination(instruction, o, f"b{element}") for o in vector.elements),
        sources=(decoder.source(instruction, value, f"b{bits}"),),
        element_bits=element,
    )


def _cvta(decoder: _Decoder, instruction: Instruction) -> Step:
    """Generic addresses of global memory are the addresses themselves; other spaces lie in a window."""
    qualifiers = list(instruction.qualifiers)
    to = "to" in qualifiers
    spaces = [q for q in qualifiers if q not in ("to", "u32", "u64")]
    target, value = instruction.operands
    if spaces == ["global"] and qualifiers[-1] == "u64":
        operation = resolve("mov", ("u64",))
        assert operation is not None
        return decoder.arithmetic(instruction, operation, (target, value))
    if len(spaces) != 1 or spaces[0] not in _WINDOWS or qualifiers[-1] != "u64":
        raise not_modelled(instruction, "this form of cvta is not modelled")
    operation = resolve("sub" if to else "add", ("u64",))
    assert operation is not None
    return decoder.arithmetic(instruction, operation, (target, value, Immediate(_WINDOWS[spaces[0]])))


_DECODERS: dict[str, Callable[[_Decoder, Instruction], Step]] = {
    "ld": _load,
    "ldu": _load,
    "st": _store,
    "atom": _atomic,
    "red": _atomic,
    "shfl": _shuffle,
    "vote": _vote,
    "activemask": _active_mask,
    "bar": _barrier,
    "barrier": _barrier,
    "bra": _branch,
    "ret": _exit,
    "exit": _exit,
    "mov": _mov,
    "cvta": _cvta,
    **dict.fromkeys(_NO_EFFECT_ON_VALUES, _nothing),
}


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, Vector) else (operand,)


def _check_count(instruction: Instruction, have: int, want: int) -> None:
    if have != want:
        raise not_modelled(instruction, f"{have} operands where {want} belong")


def _bits(type_: str) -> int:
    return 1 if type_ == "pred" else 8 * TYPE_BYTES[type_]


def _end_of(entry: Entry) -> Where:
    return where(entry.instructions[-1]) if entry.instructions else Where(entry.line)
