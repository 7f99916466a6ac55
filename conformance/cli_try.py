"""`tileproof try`: one's own kernel, judged by a contract page that is written at the first run."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tileproof.conformance.contract import Comparison, Contract, Tier
from tileproof.conformance.crash import DEFAULT_FOLDER
from tileproof.conformance.input_file import is_there
from tileproof.conformance.pages.binding import BoundPage
from tileproof.conformance.pages.vocabulary import Cuda, Ptx, Python
from tileproof.conformance.saying import say, say_lines
from tileproof.conformance.target import Coordinates, Schedule, Target, parse_targets
from tileproof.oracle.refusal import Refusal

CUDA_SUFFIX, PTX_SUFFIX, PAGE_SUFFIX = ".cu", ".ptx", ".py"
"""What a file is, by the end of its name."""


@dataclass(frozen=True)
class Asked:
    """What the command line says of a kernel file; a page says it too, once it is written."""

    entry: str
    include: tuple[str, ...]
    define: tuple[str, ...]
    options: tuple[str, ...]
    like: str

    @property
    def is_nothing(self) -> bool:
        """Whether it says nothing."""
        return self == Asked("", (), (), (), "")


def try_(
    file: Annotated[Path, typer.Argument(help="A kernel in CUDA C++ (.cu) or PTX (.ptx), or a page (.py).")],
    selectors: Annotated[list[str] | None, typer.Argument(metavar="[SELECTOR]...", help="Case ids or globs.")] = None,
    entry: Annotated[str, typer.Option(metavar="NAME", help="The kernel; of a template 'name<float, 256>'.")] = "",
    include: Annotated[list[str] | None, typer.Option("-I", "--include", metavar="DIR", help="Headers.")] = None,
    define: Annotated[list[str] | None, typer.Option("-D", "--define", metavar="NAME[=VALUE]", help="Macro.")] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="OPTION", help="Of the compiler, as NVRTC takes it.")
    ] = None,
    like: Annotated[str, typer.Option(metavar="CONTRACT", help="Judge by a contract of `tileproof list`.")] = "",
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="The page; KERNEL_page.py if not given.")] = None,
    target: Annotated[str | None, typer.Option(help="sim, gpu, or sim,gpu; host for a Python function.")] = None,
    tier: Annotated[Tier | None, typer.Option(help="Which cases; smoke unless selectors are given.")] = None,
    schedule: Annotated[Schedule, typer.Option(help="How the simulator orders what it may.")] = Schedule.ADVERSARIAL,
    seed: Annotated[int, typer.Option(help="Seed of the simulator's schedule.", min=0)] = 0,
    arch: Annotated[str, typer.Option(help="Architecture to compile for and to simulate.")] = "sm_90a",
    events: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every event here, as NDJSON.")] = None,
    crash_dir: Annotated[Path, typer.Option(help="Folder of crash files.", metavar="DIR")] = DEFAULT_FOLDER,
    deadline: Annotated[float | None, typer.Option(help="Seconds for a case or a launch.", min=0.1)] = None,
    require_device: Annotated[
        bool, typer.Option("--require-device", help="A target that cannot run is an error.")
    ] = False,
    first_failure: Annotated[bool, typer.Option("--first-failure", help="Stop after the first failing case.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes that share the cases.", min=1, max=256)] = 1,
    list_: Annotated[bool, typer.Option("--list", help="Name the cases, and run none.")] = False,
) -> None:
    """Judge your own kernel by a contract page, which is written first if there is none.

    A page is Python that says how the kernel is launched and what is right; running it runs that Python.
    """
    from tileproof.conformance.cli_run import follow  # here: what runs cases loads slowly
    from tileproof.conformance.console import Console
    from tileproof.conformance.crash import CrashFolder
    from tileproof.conformance.pages.page_file import checked_contract, load_pages
    from tileproof.conformance.registry import registered
    from tileproof.conformance.selection import select
    from tileproof.conformance.session import Plan, Run, Session, runners_for
    from tileproof.conformance.side_by_side import Helpers, SideBySide

    asked = Asked(entry, tuple(include or ()), tuple(define or ()), tuple(option or ()), like)
    where = _place(file, page, asked)
    is_new = not is_there(where) and file.suffix != PAGE_SUFFIX
    if is_new:
        _write(where, file, asked, arch)
    pages = load_pages(where)
    if not is_new and file.suffix != PAGE_SUFFIX:
        _hold_together(where, file, asked, pages)
    made = tuple(map(checked_contract, pages))
    with registered(made):
        cases = select(selectors or (), tier, among=made)
        if stranger := next((case for case in cases if case.contract not in {one.name for one in made}), None):
            raise Refusal(f"case {stranger} is of no page in {where}", hint="`tileproof check` runs it")
        if list_:
            say_lines(map(str, cases))
            raise typer.Exit(0)
        coordinates = tuple(Coordinates(name, arch, schedule, seed) for name in _targets(target, pages))
        if Target.SIM in {place.target for place in coordinates}:
            _compile_first(pages, arch)
        plan = Plan(
            cases=cases,
            coordinates=coordinates,
            tier="selected" if selectors else str(tier or Tier.SMOKE),
            first_failure=first_failure,
            require_device=require_device,
            page=str(where),
        )
        if is_new:
            say(f"wrote {where}")
        if jobs > 1:
            run: Run = SideBySide(plan, Helpers(jobs, crash_dir, deadline))
        else:
            runners = runners_for(coordinates, deadline_s=deadline, pages=[where])
            run = Session(plan, CrashFolder(crash_dir), runners)
        code = follow(run, Console(crashes=crash_dir, page=str(where)), events)
    say_lines(_remarks(where, made))
    raise typer.Exit(code)


def _place(file: Path, page: Path | None, asked: Asked) -> Path:
    """Where the page stands, or will stand. Raises: Refusal for what is neither a kernel nor a page."""
    if file.suffix == PAGE_SUFFIX:
        if not asked.is_nothing or page is not None:
            raise Refusal(f"{file} is a page, which says itself what its kernel is", hint="change the page")
        return file
    if file.suffix not in (CUDA_SUFFIX, PTX_SUFFIX):
        raise Refusal(
            f"{file} is neither a kernel nor a page", hint="a kernel's name ends in .cu or .ptx, a page's in .py"
        )
    if not is_there(file):
        raise Refusal(f"there is no file {file}", hint="give a kernel in CUDA C++ (.cu) or PTX (.ptx)")
    return page or file.with_name(f"{file.stem}_page.py")


def _write(where: Path, file: Path, asked: Asked, arch: str) -> None:
    from tileproof.conformance.pages.writer import Request, write_page

    folder = where.resolve().parent
    name = os.path.relpath(file.resolve(), folder)
    if file.suffix == PTX_SUFFIX:
        if asked.include or asked.define or asked.options:
            raise Refusal(f"{file} is PTX, which is compiled already", hint="-I, -D and --option are for .cu files")
        kernel: Cuda | Ptx = Ptx(name, asked.entry)
    else:
        include = tuple(os.path.relpath(Path(one).resolve(), folder) for one in asked.include)
        kernel = Cuda(name, asked.entry, include, asked.define, asked.options)
    text = write_page(Request(kernel, folder, file, arch, asked.like))
    try:
        with where.open("x", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise Refusal(f"{where} cannot be written: {error.strerror or error}", hint="give another --page") from None


def _hold_together(where: Path, file: Path, asked: Asked, pages: Sequence[BoundPage]) -> None:
    """A page that exists must be of this kernel, and say what the command line says."""
    own = [one for one in pages if _file_of(one) == file.resolve()]
    if not own:
        raise Refusal(f"{where} is there, and is no page of {file.name}", hint="give another --page")
    if not any(_agrees(one, asked) for one in own):
        raise Refusal(
            f"{where} is there, and says something else than these options",
            hint="change the page, which holds from now on, or give another --page for a new one",
        )


def _file_of(bound: BoundPage) -> Path | None:
    kernel = bound.page.kernel
    return None if isinstance(kernel, Python) else (bound.folder / kernel.file).resolve()


def _agrees(bound: BoundPage, asked: Asked) -> bool:
    """Whether the page says what the command line says, as far as that says anything."""
    kernel = bound.page.kernel
    cuda = kernel if isinstance(kernel, Cuda) else Cuda("")
    pairs = (
        (asked.entry, "" if isinstance(kernel, Python) else kernel.entry),
        ([Path(one).resolve() for one in asked.include], [(bound.folder / one).resolve() for one in cuda.include]),
        (list(asked.define), list(cuda.define)),
        (list(asked.options), list(cuda.options)),
        (asked.like, bound.page.like),
    )
    return all(not wanted or wanted == said for wanted, said in pairs)


def _targets(text: str | None, pages: Sequence[BoundPage]) -> tuple[Target, ...]:
    """The targets asked for, or the one that the pages' kernels run on."""
    kinds = {isinstance(one.page.kernel, Python) for one in pages}
    if len(kinds) > 1:
        raise Refusal("kernel files and Python functions in one page", hint="give each kind a file of its own")
    (is_python,) = kinds
    targets = parse_targets(text) if text is not None else (Target.HOST if is_python else Target.SIM,)
    if (Target.SIM if is_python else Target.HOST) in targets:
        what = "Python functions run on host or gpu" if is_python else "kernel files run on sim or gpu"
        raise Refusal(f"--target {text}: {what}", hint="leave --target out for the usual one")
    return targets


def _compile_first(pages: Sequence[BoundPage], arch: str) -> None:
    """Compile before any case runs: an error of the compiler is told once, not for each case."""
    from tileproof.conformance.pages.modules import load_file
    from tileproof.simulators.ptx.limits import Limits

    Limits.of(arch)
    for bound in pages:
        if not isinstance(bound.page.kernel, Python):
            load_file(bound.page.kernel, bound.folder, arch)


def _remarks(where: Path, made: Sequence[Contract]) -> list[str]:
    """What a reader of the verdict must know of the page."""
    from tileproof.conformance.pages.page_file import page_text
    from tileproof.conformance.pages.writer import guesses_in

    lines = guesses_in(page_text(where))
    shown = ", ".join(map(str, lines))
    remarks = [f"{where}: guesses in lines {shown}: a wrong one looks like a wrong kernel"] if lines else []
    unjudged = [contract.name for contract in made if contract.comparison is Comparison.REPEAT]
    if unjudged:
        remarks.append(
            f"{where}: {', '.join(unjudged)} has no `expected`: outputs were held to nothing but a second run"
        )
    return remarks
