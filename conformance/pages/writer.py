"""A first contract page for a kernel file, with a comment at each line that is a guess."""

import re
from dataclasses import dataclass
from pathlib import Path

from tileproof.conformance.contract import Contract
from tileproof.conformance.pages.binding import TakenFrom
from tileproof.conformance.pages.declaration import parameters_in
from tileproof.conformance.pages.guess import Guess, GuessedTensor, guess_launch
from tileproof.conformance.pages.modules import LoadedFile, load_file
from tileproof.conformance.pages.signature import kernel_use
from tileproof.conformance.pages.vocabulary import Cuda, Ptx
from tileproof.kernels.user_source import kernel_names, read_kernel_file
from tileproof.oracle.refusal import Refusal

GUESS = "guess"

_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Request:
    """What is asked for a new page.

    Args:
        kernel: the file and how it is compiled, as the page will say it.
        folder: where the page will stand.
        file: the kernel's file, as the user named it.
        arch: to compile for.
        like: contract of ours, as `Page.like`; empty for none.
    """

    kernel: Cuda | Ptx
    folder: Path
    file: Path
    arch: str
    like: str = ""


def write_page(request: Request) -> str:
    """The text of a page.

    Raises:
        Refusal: the kernel does not compile, is not in its file, or needs several names at once.
    """
    loaded = load_file(request.kernel, request.folder, request.arch)
    if len(loaded.user.entries) > 1:
        names = kernel_names(read_kernel_file(request.file)) or tuple(loaded.user.entries)
        raise Refusal(
            f"{request.file.name} has {len(loaded.user.entries)} kernels",
            hint=f"give --entry, one of {', '.join(names)}; a page can launch several",
        )
    ((name, mangled),) = loaded.user.entries.items()
    taken = TakenFrom.of(request.like) if request.like else None
    base = re.sub(r"<.*", "", name).rpartition("::")[2].strip()
    text = read_kernel_file(request.file) if isinstance(request.kernel, Cuda) else ""
    contract = None if taken is None else taken.contract
    instance = name.partition("<")[2]
    guess = guess_launch(kernel_use(loaded.kernels[mangled]), parameters_in(text, base), contract, instance)
    return "\n".join(_lines(request, loaded, name, base, guess, contract)) + "\n"


def guesses_in(text: str) -> tuple[int, ...]:
    """Lines of a page that still call themselves guesses."""
    return tuple(n for n, line in enumerate(text.splitlines(), start=1) if re.search(rf"#.*\b{GUESS}\b", line))


def _lines(
    request: Request, loaded: LoadedFile, name: str, base: str, guess: Guess, like: Contract | None
) -> list[str]:
    page = _NOT_IN_A_NAME.sub("_", base.lower()).strip("_") or "kernel"
    return [
        *_head(request, name, guess, like),
        "",
        f"KERNEL = {_kernel(request.kernel)}",
        "",
        "# Values of each size; every combination runs. around(256) is 1, 255, 256, 257, 511, 512, 513.",
        "SIZES = {",
        *(f'    "{size}": {values},  # {GUESS}' for size, values in guess.sizes.items()),
        "}",
        "",
        "",
        *(_tensors(guess) if like is None else ()),
        *_launch(guess, loaded.has_dynamic_shared),
        *(_expected(guess) if like is None else ()),
        *_page(page, like, request.like, guess),
    ]


def _head(request: Request, name: str, guess: Guess, like: Contract | None) -> list[str]:
    roles = sorted({tensor.role for tensor in guess.tensors}) if like is None else []
    words = [type(request.kernel).__name__, "Launch", "Page", *roles]
    words += [word for word in ("around", "cdiv") if f"{word}(" in f"{guess.grid} {' '.join(guess.sizes.values())}"]
    names = ", ".join(sorted(words, key=lambda word: (word.islower(), word)))
    return [
        f'"""What {name} of {request.file.name} must do. Edit this page, then run it: no GPU is needed.',
        "",
        f"    tileproof try {request.file.name}",
        "",
        f'Written from the kernel\'s PTX: lines marked "{GUESS}" want your eye. Running a page runs its Python.',
        '"""',
        "",
        f"from tileproof.conformance.pages import {names}",
    ]


def _kernel(kernel: Cuda | Ptx) -> str:
    parts = [repr(kernel.file)] + ([f"entry={kernel.entry!r}"] if kernel.entry else [])
    if isinstance(kernel, Cuda):
        given = (("include", kernel.include), ("define", kernel.define), ("options", kernel.options))
        parts += [f"{name}={list(value)!r}" for name, value in given if value]
    return f"{type(kernel).__name__}({', '.join(parts)})".replace("'", '"')


def _tensors(guess: Guess) -> list[str]:
    sizes = ", ".join(guess.sizes)
    return [
        f"def tensors({sizes}):",
        '    """One for each address: Input, Output, InOut, or Scratch. Types: f32 f16 bf16 e4m3 e5m2 s8 u8 s32 ..."""',
        "    return [",
        *(f"        {_declaration(one)},  # {GUESS}: {one.doubts}" for one in guess.tensors),
        "    ]",
        "",
        "",
    ]


def _declaration(one: GuessedTensor) -> str:
    shape = ", ".join(one.shape) + ("," if len(one.shape) == 1 else "")
    return f'{one.role}("{one.name}", "{one.type}", ({shape}))'


def _launch(guess: Guess, dynamic: bool) -> list[str]:
    known = ", ".join([*dict.fromkeys(one.name for one in guess.tensors), *guess.sizes])
    comments = ["; ".join(part for part in (one.declared, one.doubts) if part) for one in guess.arguments]
    return [
        f"def launch({known}):",
        '    """As the host launches it. Several launches are a list. A tensor passes as its address."""',
        "    return Launch(",
        f"        grid={guess.grid},  # {GUESS}",
        f"        block={guess.block},{'' if guess.block_is_declared else f'  # {GUESS}'}",
        *([f"        shared_bytes=0,  # {GUESS}: the kernel has extern __shared__ memory"] if dynamic else []),
        "        args=(",
        *(f"            {one.text},  # {comment}" for one, comment in zip(guess.arguments, comments, strict=True)),
        "        ),",
        "    )",
        "",
        "",
    ]


def _expected(guess: Guess) -> list[str]:
    inputs = [one.name for one in guess.tensors if one.role != "Output"]
    outputs = [one.name for one in guess.tensors if one.role != "Input"]
    return [
        "# What is right, to the bit: numpy arrays in, the outputs out, each of its own shape and type.",
        "# Without it outputs are held to nothing but a second run with other memory around them.",
        f"# def expected({', '.join(inputs)}):",
        f"#     return {', '.join(outputs) or '...'}",
        "",
    ]


def _page(page: str, like: Contract | None, text: str, guess: Guess) -> list[str]:
    if like is not None:
        read = [one.type for one in guess.tensors if one.role == "Input"]
        dtype = next((one for one in (*read, *like.dtypes) if one and one in like.dtypes), "")
        known = f"  # {GUESS}: one of {', '.join(like.dtypes)}" if dtype else ""
        said = ["    launch=launch,", f'    like="{text}",'] + ([f'    dtype="{dtype}",{known}'] if dtype else [])
    else:
        said = [
            "    tensors=tensors,",
            "    launch=launch,",
            "    # expected=expected,",
            '    compare="bits",  # or "set", "bound": then expected gives between(lower, upper)',
            '    families=("normal", "integers", "wide", "specials"),  # or "bits"',
        ]
    views = '    views=(),  # for a kernel that takes strides or any address: "xpad3", "xoff1", ...'
    return ["PAGE = Page(", f'    "{page}",', "    KERNEL,", "    SIZES,", *said, views, ")"]
