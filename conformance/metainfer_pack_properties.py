"""What `metainfer_pack` says of each property of the catalogue."""

from tileproof.conformance.metainfer_pack_cases import BACK, CONTRACT, KERNEL
from tileproof.conformance.properties import checks as by
from tileproof.conformance.properties.declaration import Absent, Declarations, applies, declare

_MOVED = "bytes are moved and never read as numbers"
_ID = f"{CONTRACT}/{KERNEL}"


def properties() -> Declarations:
    """Of a permutation of bytes."""
    return declare(
        P1=Absent(_MOVED),
        P2=Absent(_MOVED),
        P3=Absent(_MOVED),
        P4=Absent("there is no scale: " + _MOVED),
        P5=Absent("there is no scale: " + _MOVED),
        P6=Absent("nothing is kept from call to call"),
        P7=Absent("there is no scale: " + _MOVED),
        P8=applies(by.families("plane-0", "plane-1", "random"), by.tokens(BACK)),
        P9=Absent("padded rows are refused, so nothing lies between the elements"),
        P10=applies(by.poison()),
        P11=applies(by.views()),
        P12=applies(by.zero_and_one("K", "N")),
        P13=applies(by.residues(K=16, N=16), by.refusals()),
        P14=applies(
            by.probe(
                "far",
                f"{_ID}/vector/K131072.N65536.nk8/random/0",
                f"{_ID}/scalar/K131073.N65537.nk8/random/0",
                f"{_ID}/vector/K131072.N65536.unp64k16/random/0",
            )
        ),
        P15=applies(by.equal_bits(), by.probe("repeats", f"{_ID}/vector/K32.N32.nk8/random/0")),
        P16=Absent("there is no workspace: every byte is one thread's"),
        P17=applies(by.order()),
        P18=applies(by.probe("graph", f"{_ID}/scalar/K16.N16.nk8/random/0")),
        P19=applies(by.route(), by.refusals()),
        P20=Absent("nothing is computed that anything could follow"),
        P21=applies(by.families("extremes", "random", "plane-0", "plane-1")),
        P22=Absent("there is no batch: a weight is packed as a whole"),
        P23=Absent("nothing is summed: there is no accumulator"),
        P24=applies(by.probe("wrong oracles", f"{_ID}/scalar/K16.N16.nk8/random/0")),
    )
