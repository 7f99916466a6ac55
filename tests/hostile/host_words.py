"""What code of the CPU device must not say, because a PTX text could then reach the host through it."""

import ast
from collections.abc import Iterator

#: Functions that turn text into behaviour, or reach files and processes. `getattr` may look up names that stand there.
FORBIDDEN_CALLS = frozenset(
    {
        "eval",
        "exec",
        "compile",
        "__import__",
        "open",
        "globals",
        "locals",
        "vars",
        "setattr",
        "delattr",
        "input",
        "import_module",
    }
)
FORBIDDEN_METHODS = frozenset(
    {"format_map", "system", "popen", "import_module", "read_text", "write_text", "read_bytes"}
)
FORBIDDEN_MODULES = frozenset(
    {"os", "subprocess", "socket", "shutil", "pathlib", "pickle", "marshal", "ctypes", "tempfile", "importlib", "io"}
)


def ways_out(source: str) -> Iterator[str]:
    """Each of them in a module's text, as it stands there."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name), args=arguments):
                literal = len(arguments) > 1 and isinstance(arguments[1], ast.Constant)
                if name in FORBIDDEN_CALLS or (name == "getattr" and not literal):
                    yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr=name, value=value)):
                formats = name == "format" and not isinstance(value, ast.Constant)
                if name in FORBIDDEN_METHODS or formats:
                    yield ast.unparse(node)
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.split(".")[0] in FORBIDDEN_MODULES:
                        yield ast.unparse(node)
            case ast.ImportFrom(module=str(module)):
                if module.split(".")[0] in FORBIDDEN_MODULES:
                    yield ast.unparse(node)
