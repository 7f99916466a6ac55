"""Triton kernels to PTX: functions are taken out of a package's file as they stand, and compiled without a GPU.

The file itself cannot be imported without the package's own dependencies, so the definitions of the functions that are
named, and nothing else of the file, become a module; decorators are replaced by a plain `@triton.jit`, because
autotuning is for the launch, and the launch is ours.
"""

import ast
import importlib.util
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import packages

_HEAD = "import triton\nimport triton.language as tl\n"


@dataclass(frozen=True)
class TritonKernel:
    """One kernel and how it is compiled.

    Attributes:
        package: whose wheel.
        file: in it.
        name: of the kernel.
        types: argument to Triton's name of its type; those of `constants` are left out.
        constants: compile-time arguments.
        helpers: functions of the same file that it calls.
        aligned: arguments that are multiples of 16, as a launch by Triton finds out of its arguments.
        target: compute capability times ten.
        options: of the compiler.
    """

    package: str
    file: str
    name: str
    types: Mapping[str, str]
    constants: Mapping[str, Any]
    helpers: Sequence[str] = ()
    aligned: Sequence[str] = ()
    target: int = 90
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    """PTX, and what a launch must know.

    Attributes:
        ptx: the text.
        threads: of a block.
        shared_bytes: dynamic shared memory.
        scratch_bytes: global memory that each block takes for itself.
    """

    ptx: str
    threads: int
    shared_bytes: int
    scratch_bytes: int


def compile_kernel(kernel: TritonKernel) -> Compiled:
    """Compile with the pinned Triton."""
    packages.import_triton()
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _load(kernel)
    order = {name: index for index, name in enumerate(function.arg_names)}
    signature = {name: kernel.types.get(name, "constexpr") for name in function.arg_names}
    attributes = {(order[name],): [["tt.divisibility", 16]] for name in kernel.aligned}
    source = ASTSource(function, signature, dict(kernel.constants), attributes)
    made = triton.compile(source, target=GPUTarget("cuda", kernel.target, 32), options=dict(kernel.options))
    about = made.metadata
    return Compiled(made.asm["ptx"], about.num_warps * 32, about.shared, about.global_scratch_size)


def _load(kernel: TritonKernel) -> Any:
    text = packages.read(kernel.package, kernel.file)
    wanted = {*kernel.helpers, kernel.name}
    lines = text.splitlines()
    found = {
        node.name: textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name in wanted
    }
    module_text = _HEAD + "".join(f"\n\n@triton.jit\n{found[name]}\n" for name in (*kernel.helpers, kernel.name))
    # NOTE: Triton reads a function's text from its file.
    path = Path(tempfile.mkdtemp(prefix="foreign")) / f"{kernel.name.strip('_')}.py"
    path.write_text(module_text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kernel.name)
