"""Runs the `main` of every benchmark module, or of those named on the command line."""

import sys
from importlib import import_module
from pkgutil import iter_modules

import benchmarks

#: Modules that are no benchmarks.
_HELPERS = {"__main__", "report", "numba_matmul", "gpu_timing", "torch_graph"}


def main() -> int:
    """Runs the benchmarks; the exit code is 2 for a name that is none of them."""
    known = [module.name for module in iter_modules(benchmarks.__path__) if module.name not in _HELPERS]
    unknown = [name for name in sys.argv[1:] if name not in known]
    if unknown:
        sys.stderr.write(f"no benchmark {', '.join(unknown)}; there are {', '.join(known)}\n")
        return 2
    for name in sys.argv[1:] or known:
        import_module(f"benchmarks.{name}").main()
    return 0


sys.exit(main())
