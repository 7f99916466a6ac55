"""Variables, parameters and registers. Source: PTX ISA 9.0, sections 5 and 7.1; checked against ptxas 13.0.

``.global .align 4 .b8 x[16] = {1, 0, 0, 0, 2};`` gives a variable of 16 elements whose other initial bytes are zero.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from math import prod
from typing import NoReturn

from tileproof.simulators.ptx.text.constants import read_constant, read_integer
from tileproof.simulators.ptx.text.scopes import Scope, redeclared
from tileproof.simulators.ptx.text.syntax import (
    TYPE_BYTES,
    Immediate,
    Parameter,
    PtxSyntaxError,
    Register,
    Symbol,
    Variable,
)
from tileproof.simulators.ptx.text.tokens import Cursor, Kind, quote

MAX_REGISTERS = 1 << 18
"""Registers declared in one module: fifty kernels of 5,000; more would only exhaust memory."""

MAX_RANGE_NAME_CHARS = 64
"""Longest ``name`` of a range ``name<n>``, which is repeated for every register; compilers write three or four."""

MAX_VARIABLE_BYTES = 1 << 47
"""Largest variable: the size of a GPU's virtual address space."""

MAX_INITIAL_BYTES = 1 << 26
"""Largest variable with an initialiser, which is held in memory as a whole."""

MAX_ALIGN = 1 << 20
"""Largest alignment in bytes; hardware knows none above 1,024."""

MAX_DIMENSIONS = 16
"""Most dimensions of an array, and deepest nesting of an initialiser."""

POINTER_SPACES = frozenset({".const", ".global", ".local", ".shared"})
VARIABLE_SPACES = POINTER_SPACES | {".param"}
_ALTERNATE_TYPES = {".bf16": ".b16", ".bf16x2": ".b32", ".tf32": ".b32", ".e4m3": ".b8", ".e5m2": ".b8"}


@dataclass
class RegisterQuota:
    """How many registers a module may still declare."""

    left: int = MAX_REGISTERS

    def spend(self, count: int, line: int) -> None:
        """Takes ``count`` away, or raises PtxSyntaxError if fewer are left."""
        if count > self.left:
            raise PtxSyntaxError(f"{count} registers pass the limit of {MAX_REGISTERS}", line=line)
        self.left -= count


def read_registers(cursor: Cursor, scope: Scope, quota: RegisterQuota) -> dict[str, str]:
    """``.reg .b32 %r<10>, %x;`` after its ``.reg``: unique names and types, declared in the scope."""
    if cursor.token.text in (".v2", ".v4", ".v8"):
        _refuse(cursor, f"a vector of registers ({cursor.token.text})", hint="declare the elements one by one")
    register_type = _read_type(cursor, allow_pred=True)
    declared: dict[str, str] = {}
    while True:
        line = cursor.line
        name = cursor.expect_name("the name of a register")
        if cursor.accept("<"):
            declared |= dict.fromkeys(_declare_range(cursor, scope, quota, name), register_type)
        else:
            quota.spend(1, line)
            declared[scope.declare(name, Register, line)] = register_type
        if not cursor.accept(","):
            break
    cursor.expect(";", "or ',' after the name of a register")
    return declared


def _declare_range(cursor: Cursor, scope: Scope, quota: RegisterQuota, prefix: str) -> list[str]:
    line = cursor.line
    if len(prefix) > MAX_RANGE_NAME_CHARS:
        raise PtxSyntaxError(f"{quote(prefix)}<n> is longer than {MAX_RANGE_NAME_CHARS} characters", line=line)
    count = read_integer(cursor, "the number of registers", low=0, high=(1 << 64) - 1)
    cursor.expect(">", "after the number of registers")
    quota.spend(count, line)
    registers = {f"{prefix}{index}": Register(scope.unique(f"{prefix}{index}")) for index in range(count)}
    if not scope.names.keys().isdisjoint(registers):
        raise redeclared(next(name for name in registers if name in scope.names), line)
    scope.names.update(registers)
    return [register.name for register in registers.values()]


def read_variables(cursor: Cursor, scope: Scope, linkage: str = "") -> list[Variable]:
    """One declaration from its state space to the semicolon; the names are declared in the scope."""
    space = cursor.take().text[1:]
    align = _read_align(cursor)
    width = _read_vector_width(cursor)
    type_name = _read_type(cursor)
    variables: list[Variable] = []
    while True:
        line = cursor.line
        name = cursor.expect_name("the name of a variable")
        unique = scope.declare(name, Symbol, line)
        dimensions = _read_dimensions(cursor)
        initial: bytes | None = None
        if cursor.accept("="):
            if space not in ("global", "const"):
                raise PtxSyntaxError(f"a variable in .{space} cannot have an initial value", line=line)
            dimensions, initial = _read_initial(cursor, type_name, width, dimensions)
        count = _checked_count(name, TYPE_BYTES[type_name], width, dimensions, line)
        if count == 0 and linkage != "extern":
            raise PtxSyntaxError(f"{quote(name)} has no size", line=line, hint="only .extern arrays leave it open")
        natural = TYPE_BYTES[type_name] * width
        variables.append(Variable(unique, space, type_name, align or natural, count, line, initial, linkage))
        if not cursor.accept(","):
            break
    cursor.expect(";", "at the end of the declaration")
    return variables


def read_parameters(cursor: Cursor, scope: Scope, quota: RegisterQuota) -> tuple[Parameter, ...]:
    """A parenthesised list of formal parameters; the names are declared in the scope."""
    cursor.expect("(", "before the parameters")
    parameters: list[Parameter] = []
    while not cursor.accept(")"):
        if parameters:
            cursor.expect(",", "or ')' after a parameter")
        parameters.append(_read_parameter(cursor, scope, quota))
    return tuple(parameters)


def _read_parameter(cursor: Cursor, scope: Scope, quota: RegisterQuota) -> Parameter:
    line, space = cursor.line, cursor.token.text
    if space not in (".param", ".reg"):
        cursor.fail("'.param' before a parameter")
    cursor.take()
    align = _read_align(cursor)
    type_name = _read_type(cursor, allow_pred=space == ".reg")
    pointer_space, pointer_align = _read_pointer(cursor)
    name = cursor.expect_name("the name of a parameter")
    if space == ".reg":
        quota.spend(1, line)
        unique = scope.declare(name, Register, line)
        return Parameter(unique, type_name, TYPE_BYTES.get(type_name, 1), 1, line, "reg")
    unique = scope.declare(name, Symbol, line)
    size = TYPE_BYTES[type_name]
    count = _checked_count(name, size, 1, _read_dimensions(cursor), line)
    return Parameter(unique, type_name, align or size, count, line, "param", pointer_space, pointer_align)


def _read_pointer(cursor: Cursor) -> tuple[str | None, int | None]:
    if not cursor.accept(".ptr"):
        return None, None
    space = cursor.take().text[1:] if cursor.token.text in POINTER_SPACES else ""
    return space, _read_align(cursor)


def _read_align(cursor: Cursor) -> int | None:
    if cursor.token.text == ".attribute":
        _refuse(cursor, ".attribute (managed and unified memory)")
    if not cursor.accept(".align"):
        return None
    line = cursor.line
    align = read_integer(cursor, "the alignment in bytes", low=1, high=MAX_ALIGN)
    if align & (align - 1):
        raise PtxSyntaxError(f"the alignment {align} is not a power of two", line=line)
    return align


def _read_vector_width(cursor: Cursor) -> int:
    for text, width in ((".v2", 2), (".v4", 4)):
        if cursor.accept(text):
            return width
    return 1


def _read_type(cursor: Cursor, *, allow_pred: bool = False) -> str:
    text = cursor.token.text
    if text[1:] not in TYPE_BYTES and not (allow_pred and text == ".pred"):
        _fail_type(cursor)
    cursor.take()
    return text[1:]


def _fail_type(cursor: Cursor) -> NoReturn:
    text = cursor.token.text
    if text in (".texref", ".samplerref", ".surfref"):
        _refuse(cursor, text)
    if text in _ALTERNATE_TYPES:
        cursor.fail("a type", hint=f"values of this type are declared as {_ALTERNATE_TYPES[text]}")
    if text == ".pred":
        cursor.fail("a type that has a size in memory", hint="predicates live in registers")
    cursor.fail("a type such as .b32")


def _read_dimensions(cursor: Cursor) -> tuple[int, ...]:
    """Sizes between brackets; -1 where the first is left open."""
    dimensions: list[int] = []
    while cursor.accept("["):
        line = cursor.line
        if not dimensions and cursor.accept("]"):
            dimensions.append(-1)
            continue
        dimensions.append(read_integer(cursor, "the number of elements", low=0, high=(1 << 64) - 1))
        cursor.expect("]", "after the number of elements")
        if len(dimensions) > MAX_DIMENSIONS:
            raise PtxSyntaxError(f"an array has more than {MAX_DIMENSIONS} dimensions", line=line)
    return tuple(dimensions)


def _checked_count(name: str, element_bytes: int, width: int, dimensions: tuple[int, ...], line: int) -> int:
    count = 0 if -1 in dimensions else prod(dimensions) * width
    if count * element_bytes > MAX_VARIABLE_BYTES:
        raise PtxSyntaxError(
            f"{quote(name)} takes {count * element_bytes} bytes, the limit is {MAX_VARIABLE_BYTES}", line=line
        )
    return count


def _read_initial(
    cursor: Cursor, type_name: str, width: int, dimensions: tuple[int, ...]
) -> tuple[tuple[int, ...], bytes]:
    """The dimensions, the open one now known, and all bytes of the variable."""
    if type_name in ("f16", "f16x2", "b128"):
        _refuse(cursor, f"an initial value of type .{type_name}", hint="declare it as .b8 or .b16")
    shape = dimensions + ((width,) if width > 1 else ())
    sizes = tuple(1 << 64 if size < 0 else size for size in shape)
    data = bytearray()
    length = _read_level(cursor, type_name, sizes, data)
    if -1 in dimensions:
        dimensions = (length, *dimensions[1:])
    size = prod(dimensions) * width * TYPE_BYTES[type_name]
    if size > MAX_INITIAL_BYTES:
        raise PtxSyntaxError(
            f"an initialised variable has {size} bytes, the limit is {MAX_INITIAL_BYTES}", line=cursor.line
        )
    return dimensions, bytes(data).ljust(size, b"\0")


def _read_level(cursor: Cursor, type_name: str, shape: tuple[int, ...], data: bytearray) -> int:
    """Appends one ``{...}`` or, for an empty shape, one value; returns the number of elements written."""
    if not shape:
        data += _encode(cursor, type_name)
        return 1
    start, step = len(data), prod(shape[1:]) * TYPE_BYTES[type_name]
    cursor.expect("{", "before the initial values of an array")
    length = 0
    while not cursor.accept("}"):
        if length:
            cursor.expect(",", "or '}' after an initial value")
        if length == shape[0]:
            raise PtxSyntaxError(f"more initial values than the {shape[0]} elements", line=cursor.line)
        if start + length * step > MAX_INITIAL_BYTES:
            raise PtxSyntaxError(f"more than {MAX_INITIAL_BYTES} bytes of initial values", line=cursor.line)
        data.extend(bytes(start + length * step - len(data)))  # what an inner list left out is zero
        _read_level(cursor, type_name, shape[1:], data)
        length += 1
    return length


def _encode(cursor: Cursor, type_name: str) -> bytes:
    if cursor.token.kind is Kind.WORD and cursor.token.text != "WARP_SZ":
        _refuse(cursor, "the address of a symbol as initial value")
    line = cursor.line
    value = read_constant(cursor)
    if (value.float_type is not None) != type_name.startswith("f"):
        raise PtxSyntaxError(f"the initial value does not have the type .{type_name}", line=line)
    size = TYPE_BYTES[type_name]
    bits = _float_bits(value, type_name, line) if value.float_type else value.bits
    return (bits & ((1 << 8 * size) - 1)).to_bytes(size, "little")  # ptxas cuts integers to the type


def _float_bits(value: Immediate, type_name: str, line: int) -> int:
    if value.float_type == type_name:
        return value.bits
    if value.float_type == "f32":
        raise PtxSyntaxError("an initial value of type .f64 is written with 0d or in decimal", line=line)
    number = struct.unpack("<d", value.bits.to_bytes(8, "little"))[0]
    try:
        return int.from_bytes(struct.pack("<f", number), "little")
    except OverflowError:
        raise PtxSyntaxError(f"the initial value {number} is too large for .f32", line=line) from None


def _refuse(cursor: Cursor, what: str, *, hint: str = "") -> NoReturn:
    raise PtxSyntaxError(f"{what} is not modelled", line=cursor.line, hint=hint)
