"""From what a kernel's PTX and source say to a first idea of its launch; whatever is uncertain is called a guess."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from keyword import iskeyword

from tileproof.conformance.contract import Contract, Tier
from tileproof.conformance.pages.declaration import Declared, element_in
from tileproof.conformance.pages.running import describe_parameter
from tileproof.conformance.pages.signature import KernelUse, ParameterUse
from tileproof.conformance.pages.types import TYPES
from tileproof.simulators.ptx.text.syntax import Parameter

DEFAULT_BLOCK = 256
MAX_VARIED = 3
"""Sizes that are given several values each: every combination of them is run."""

_GEMM = ("M", "N", "K")
_ROWS = (1, 3)
_INTEGER = re.compile(r"[bus](8|16|32|64)")
_STRIDE = re.compile(r"stride|pitch|^ld[a-z]?$|^ld_")
_WORDS = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True)
class GuessedTensor:
    """A tensor behind an address: which function declares it, and how."""

    name: str
    role: str
    type: str
    shape: tuple[str, ...]
    doubts: str


@dataclass(frozen=True)
class GuessedArgument:
    """One argument: what is passed, and what the kernel declares."""

    text: str
    declared: str
    doubts: str = ""


@dataclass(frozen=True)
class Guess:
    """A launch as far as it can be guessed: values of sizes as Python text, tensors, arguments, grid and block."""

    sizes: Mapping[str, str]
    tensors: tuple[GuessedTensor, ...]
    arguments: tuple[GuessedArgument, ...]
    grid: str
    block: str
    block_is_declared: bool
    """By the kernel, as `__launch_bounds__` or `.reqntid`; else the block is a guess too."""


def guess_launch(
    use: KernelUse, declared: Sequence[Declared] | None, like: Contract | None, instance: str = ""
) -> Guess:
    """The first idea.

    Args:
        use: of the PTX.
        declared: of the source, where it could be read.
        like: the contract of ours whose tensors the kernel takes.
        instance: a template's arguments, as text.
    """
    if declared is not None and len(declared) != len(use.parameters):
        declared = None
    for one, said in zip(use.parameters, declared or (), strict=False):
        one.is_address |= said.is_pointer  # also where the kernel does not use it
    names = _names(use, declared)
    block = use.block[0] * use.block[1] * use.block[2] if use.block else DEFAULT_BLOCK
    sizes = _sizes(use, names, block) if like is None else _sizes_like(like, block)
    tensors = _tensors(use, declared, names, tuple(sizes), element_in(instance))
    if like is not None:
        tensors = _named_like(tensors, like)
    places = iter(tensors)
    arguments = tuple(
        GuessedArgument(tensor.name, describe_parameter(one.parameter), _use_in_words(one))
        if one.is_address and (tensor := next(places))
        else _scalar(one.parameter, name, tuple(sizes), tensors)
        for one, name in zip(use.parameters, names, strict=True)
    )
    return Guess(sizes, tensors, arguments, _grid(use, tuple(sizes), block), _block(use), use.block is not None)


def _names(use: KernelUse, declared: Sequence[Declared] | None) -> list[str]:
    """Names of the parameters, fit for Python; of the source or else of the PTX, where they say them."""
    names: list[str] = []
    own = _own_names([one.parameter.name for one in use.parameters])
    for index, one in enumerate(use.parameters):
        name = declared[index].name if declared is not None else own[index]
        name += "_" * iskeyword(name)
        if not name.isidentifier():
            name = f"{'p' if one.is_address else 's'}{index}"
        while name in names or name in ("random", "family"):
            name += "_"
        names.append(name)
    return names


def _own_names(names: list[str]) -> list[str]:
    """What tells the names of a PTX apart: `p_x` and `p_n` are x and n, a compiler's `f_param_0` is the number 0."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = len(list(alike)) if len(names) > 1 else 0
    return [name[shared:] for name in names]


def _sizes(use: KernelUse, names: Sequence[str], block: int) -> dict[str, str]:
    """A size for each whole number that is no stride; of three called M, N and K, those of a product."""
    integers = [
        _size_name(name)
        for one, name in zip(use.parameters, names, strict=True)
        if not one.is_address and _is_integer(one.parameter) and not _STRIDE.search(name.lower())
    ]
    found = list(dict.fromkeys(integers)) or ["N"]
    if set(_GEMM) <= set(found):
        return {name: "(16, 17)" if name in _GEMM else "(1,)" for name in found}
    several = str(_ROWS) if len(found) <= MAX_VARIED else "(2,)"
    return dict.fromkeys(found[:-1], several) | {found[-1]: f"around({block})"}


def _sizes_like(like: Contract, block: int) -> dict[str, str]:
    names = like.dimensions
    if len(names) > 2:
        first = like.cases(Tier.SMOKE)[0].shape
        return {dimension.name: f"({dimension.size},)" for dimension in first.dimensions}
    return {name: str(_ROWS) for name in names[:-1]} | {names[-1]: f"around({block})"}


def _tensors(
    use: KernelUse,
    declared: Sequence[Declared] | None,
    names: Sequence[str],
    sizes: tuple[str, ...],
    of_template: str | None,
) -> tuple[GuessedTensor, ...]:
    found = []
    for index, (one, name) in enumerate(zip(use.parameters, names, strict=True)):
        if not one.is_address:
            continue
        said = None if declared is None else declared[index].element
        role = "InOut" if one.reads and one.writes else "Output" if one.writes else "Input"
        kind = said or _narrowest(one.types)
        if said is None and of_template is not None and _bits(of_template) == _bits(kind):
            kind = of_template
        doubts = ["shape"] + ["type"] * (said is None)
        found.append(GuessedTensor(name, role, kind, _shape(name, sizes), " and ".join(doubts)))
    return tuple(found)


def _shape(name: str, sizes: tuple[str, ...]) -> tuple[str, ...]:
    if set(_GEMM) <= set(sizes):
        operands = {"a": ("M", "K"), "x": ("M", "K"), "b": ("N", "K"), "w": ("N", "K")}
        return operands.get(name.lower().rstrip("_")[:1], ("M", "N"))
    return sizes[:2] if len(sizes) <= 2 else sizes[:1]


def _named_like(tensors: Sequence[GuessedTensor], like: Contract) -> tuple[GuessedTensor, ...]:
    """The contract's tensors in place of the kernel's, inputs for inputs and outputs for outputs, in order."""
    specs = like.tensors(like.cases(Tier.SMOKE)[0].shape)
    read = iter([spec.name for spec in specs if not spec.role.is_written])
    written = iter([spec.name for spec in specs if spec.role.is_written])
    renamed = []
    for tensor in tensors:
        name = next(read if tensor.role == "Input" else written, tensor.name)
        renamed.append(GuessedTensor(name, tensor.role, tensor.type, tensor.shape, tensor.doubts))
    return tuple(renamed)


def _scalar(
    parameter: Parameter, name: str, sizes: tuple[str, ...], tensors: Sequence[GuessedTensor]
) -> GuessedArgument:
    declared = f"{describe_parameter(parameter)} {name}"
    if parameter.count != 1:
        return GuessedArgument(f"bytes({parameter.size_bytes})", declared, "guess: its bytes")
    if parameter.type in ("f32", "f64"):
        return GuessedArgument("1e-6" if "eps" in name.lower() else "0.5", declared, "guess: its value")
    if _STRIDE.search(name.lower()):
        owner = next((one.name for one in tensors if one.name in _WORDS.findall(name.replace("_", " "))), None)
        of = owner or (tensors[0].name if tensors else None)
        return GuessedArgument(f"{of}.strides[0]" if of else "0", declared, "guess")
    size = _size_name(name)
    return GuessedArgument(size if size in sizes else sizes[-1], declared, "" if size in sizes else "guess")


def _grid(use: KernelUse, sizes: tuple[str, ...], block: int) -> str:
    if set(_GEMM) <= set(sizes):
        return "(cdiv(N, 16), cdiv(M, 16))"
    if use.rows_by_y and len(sizes) > 1:
        return f"(cdiv({sizes[1]}, {block}), {sizes[0]})"
    if use.global_index or len(sizes) == 1:
        return f"cdiv({' * '.join(sizes[:2])}, {block})"
    return sizes[0]


def _block(use: KernelUse) -> str:
    if use.block is None:
        return str(DEFAULT_BLOCK)
    return str(use.block[0]) if use.block[1:] == (1, 1) else str(tuple(use.block))


def _narrowest(types: set[str]) -> str:
    return min(types, key=lambda one: (_bits(one), one)) if types else "u8"


def _bits(type: str) -> int:
    return 8 * TYPES[type].dtype.itemsize


def _use_in_words(use: ParameterUse) -> str:
    words = ["read"] * use.reads + ["written"] * use.writes
    return " and ".join(words) or "guess: nothing reaches memory through it"


def _is_integer(parameter: Parameter) -> bool:
    return parameter.count == 1 and _INTEGER.fullmatch(parameter.type) is not None


def _size_name(name: str) -> str:
    """`num_rows` as NumRows: what a size may be called."""
    made = "".join(word[:1].upper() + word[1:] for word in _WORDS.findall(name))
    return made or "N"
