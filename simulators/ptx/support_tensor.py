"""Which tensor reductions the device has, asked of the code: a part of docs/ptx.md."""

from tileproof.oracle.addresses.tensor_map import TensorType
from tileproof.simulators.ptx.decoding.decode_tensor import REDUCTIONS
from tileproof.simulators.ptx.machine.asynchronous.tensor_values import reduction


def reduction_table() -> str:
    """One row for each operation: the element types of tensor maps that have it."""
    lines = ["| reduction | element types |", "|---|---|"]
    for name in REDUCTIONS:
        types = [kind.label for kind in TensorType if not kind.packed and reduction(name, kind) is not None]
        lines.append(f"| `.{name}` | {' '.join(types)} |")
    return "\n".join(lines) + "\n"
