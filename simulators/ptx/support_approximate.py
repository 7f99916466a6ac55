"""The approximate functions with their brackets, asked of the code itself: a table in docs/ptx.md."""

from collections.abc import Iterable
from math import log2, pi

from tileproof.simulators.ptx.alu.approximate import FUNCTIONS, Allowance
from tileproof.simulators.ptx.alu.approximate import Function as Approximation

_EXACT = {
    "_integral": "integers",
    "_power_of_two": "powers of two",
    "_power_of_two_from_one": "powers of two from 1 on",
    "_power_of_four": "powers of four",
}


def approximate_table() -> str:
    """One row for each function and format: how far a result may lie off, what is exact, and how that is known."""
    lines = [
        "| function | format | a result may lie off by | exact operands, measured | evidence |",
        "|---|---|---|---|---|",
    ]
    for (mnemonic, full, lane), function in FUNCTIONS.items():
        name = f"{mnemonic}.{'full' if full else 'approx'}"
        exact = _EXACT[function.exact_at.__name__] if function.exact_at is not None else ""
        levels = dict.fromkeys(allowance.evidence.value for allowance in function.allowances)
        lines.append(f"| `{name}` | {lane} | {_off(function)} | {exact} | {', '.join(levels)} |")
    return "\n".join(lines) + "\n"


def _off(function: Approximation) -> str:
    return "; ".join(_parts(function.allowances, function.bound))


def _parts(allowances: Iterable[Allowance], bound: float) -> Iterable[str]:
    for allowance in allowances:
        sizes = [f"{_power(allowance.relative)} of the value"] if allowance.relative else []
        sizes += [_power(allowance.absolute)] if allowance.absolute else []
        off = ", at least ".join(sizes) if allowance.absolute < bound else "anything from -1 to 1"
        yield off + (f" up to {round(allowance.up_to / pi)} pi" if allowance.up_to < float("inf") else "")


def _power(value: float) -> str:
    return f"2^{round(log2(value), 3):g}"
