"""The packed orders of int8 weights that the kernels know, by the names of `oracle.layouts`.

The index relations stand in int8_layout.cuh, one struct each; which shapes an order takes is in its record.
"""

from dataclasses import dataclass

from tileproof.oracle.addresses.pack_layout import PackLayout
from tileproof.oracle.layouts import PACKS
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class WeightLayout:
    """One order.

    Args:
        record: its digits and legal shapes.
        symbol: its struct in int8_layout.cuh.
        along_n: whether 16 neighbouring bytes hold 16 neighbouring n; else they hold 16, or twice 8, neighbouring k.
    """

    record: PackLayout
    symbol: str
    along_n: bool = False

    def check_shape(self, k: int, n: int) -> None:
        """Raises: Refusal where the order does not take W[K][N]."""
        self.record.stored_shape(k, n)


WEIGHT_LAYOUTS = {
    layout.record.name: layout
    for layout in (
        WeightLayout(PACKS["contiguous"], "Contiguous", along_n=True),
        WeightLayout(PACKS["n-major"], "NMajor"),
        WeightLayout(PACKS["panel-64"], "Panel64", along_n=True),
        WeightLayout(PACKS["panel-64-k16"], "Panel64K16"),
        WeightLayout(PACKS["stage-64-n128-k8"], "Stage64N128K8"),
        WeightLayout(PACKS["stage-64-k8"], "Stage64K8"),
        WeightLayout(PACKS["tile-128x64"], "Tile128x64"),
        WeightLayout(PACKS["fragment"], "Fragment"),
        WeightLayout(PACKS["fragment-pairs"], "FragmentPairs"),
    )
}
"""By name."""


def weight_layout(name: str) -> WeightLayout:
    """The order of that name. Raises: Refusal for one that no kernel reads, with those that are."""
    if name not in WEIGHT_LAYOUTS:
        raise Refusal(f"no kernel reads weights packed as {name!r}", hint=f"one of {', '.join(WEIGHT_LAYOUTS)}")
    return WEIGHT_LAYOUTS[name]
