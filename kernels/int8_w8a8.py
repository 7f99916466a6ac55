"""The INT8 W8A8 operator: a prepared weight, all checks, the router's choice or a forced kernel.

What it cannot take it refuses with the reason, so that a caller can keep its own kernel: a bias, another output type,
operands of another type, rank or scale shape, a buffer that is not contiguous, a weight that was not prepared, and, for
a family that is asked to take its own shapes alone, another K or N.

Example: `weight = operator.prepare(raw, packed)` once; then `operator(x, weight, x_scale, w_scale, out)` a call.
"""

from dataclasses import dataclass, replace

from tileproof.kernels.device import Device
from tileproof.kernels.int8_arms import ARMS, DECODE_DEPTH, DecodeArm
from tileproof.kernels.int8_gemm import Int8Gemm, Product
from tileproof.kernels.int8_pack import Int8Pack
from tileproof.kernels.int8_router import DECODE_LAST_M, Choice, Family, is_decode, select
from tileproof.kernels.launcher import Launch
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.refusal import Refusal


@dataclass(frozen=True)
class Weight:
    """A prepared weight.

    Args:
        packed: int8 [K * N].
        pack: its order.
        k: rows of the weight.
        n: columns of it.
    """

    packed: Tensor
    pack: str
    k: int
    n: int


@dataclass(frozen=True)
class Workspace:
    """Memory of a decode call; kept by the caller, so that its address is the same in every replay of a graph.

    Args:
        planes: int32 [planes, M, N].
        arrivals: uint64 [N / 64], zeros before the first call and for one number of splits after it: a workspace of
            the router's choice is none for a forced kernel with more. None where nothing is combined by the last block.
    """

    planes: Tensor
    arrivals: Tensor | None = None


class W8A8:
    """The operator on one device.

    Args:
        device: where all tensors live.
        family: whose weights it multiplies with.
        decode_last_m: where decode ends, 16 or 32.
        targets_only: whether a weight of another (K, N) than the family's is refused.
        sources: texts of kernels by name, as `Int8Gemm` takes them.
    """

    def __init__(
        self,
        device: Device,
        family: Family,
        *,
        decode_last_m: int = DECODE_LAST_M,
        targets_only: bool = False,
        sources: dict[str, str] | None = None,
    ) -> None:
        is_decode(1, decode_last_m)
        self.family = family
        self._decode_last_m = decode_last_m
        self._targets_only = targets_only
        self._gemm = Int8Gemm(device, sources=sources)
        self._pack = Int8Pack(device)

    def prepare(self, raw: Tensor, packed: Tensor) -> Weight:
        """Pack a weight as the family's kernels read it; once, outside of what is timed or captured.

        Args:
            raw: int8 [K, N], contiguous. It is left as it is: callers keep it for their own kernels.
            packed: int8 [K * N], whose address stays that of the weight.

        Raises:
            Refusal: as `Int8Pack.pack`, or a shape that is no target of the family where it must be one.
            DeviceError: the device failed.
        """
        if len(raw.shape) != 2:
            raise Refusal(f"raw has {len(raw.shape)} dimensions {raw.shape}; a weight has 2, [K, N]")
        k, n = raw.shape
        self._check_target(k, n)
        pack = self.family.pack_of(k, n)
        self._pack.pack(raw, packed, pack)
        return Weight(packed, pack, k, n)

    def __call__(
        self,
        x: Tensor,
        weight: Weight | None,
        x_scale: Tensor,
        w_scale: Tensor,
        out: Tensor,
        *,
        bias: Tensor | None = None,
        workspace: Workspace | None = None,
        arm: str | None = None,
    ) -> Launch:
        """Compute out = (x * W) x_scale w_scale, rounded to bfloat16.

        Args:
            x: int8 [M, K].
            weight: what `prepare` returned.
            x_scale: float32 [M] or [M, 1].
            w_scale: float32 [N] or [N, 1].
            out: bfloat16 [M, N].
            bias: is refused.
            workspace: for decode kernels that split K over the grid.
            arm: the kernel to use; None for the router's choice.

        Raises:
            Refusal: the reason why the call is not supported.
            DeviceError: the device failed.
        """
        if not isinstance(weight, Weight):
            raise Refusal("the weight was not prepared", hint="prepare it once, before the first call")
        if bias is not None:
            raise Refusal("a bias is given; the kernels add none", hint="add it in a kernel of your own")
        if len(x.shape) != 2 or len(out.shape) != 2:
            raise Refusal(f"x has shape {x.shape} and out {out.shape}; both must have 2 dimensions")
        self._check_target(weight.k, weight.n)
        if x.shape[1] != weight.k or out.shape[1] != weight.n:
            raise Refusal(
                f"x has K = {x.shape[1]} and out N = {out.shape[1]}; the weight is K = {weight.k}, N = {weight.n}"
            )
        product = Product(
            x=x,
            weight=weight.packed,
            pack=weight.pack,
            x_scale=_column("x_scale", x_scale),
            w_scale=_column("w_scale", w_scale),
            out=out,
            arrivals=None if workspace is None else workspace.arrivals,
        )
        choice = self.choose(x.shape[0], weight, workspace, arm)
        if choice.splits and workspace is not None:
            product = replace(product, planes=_first_planes(workspace.planes, choice.splits))
        return self._gemm(product, choice.arm)

    def choose(self, m: int, weight: Weight, workspace: Workspace | None = None, arm: str | None = None) -> Choice:
        """The kernel for M rows.

        Raises:
            Refusal: the weight is packed for another kernel than the router's, or a decode kernel has no workspace.
        """
        planes = 0 if workspace is None or not workspace.planes.shape else workspace.planes.shape[0]
        if arm is None:
            choice = select(self.family, m, weight.n, weight.k, decode_last_m=self._decode_last_m, planes=planes)
            if choice.pack != weight.pack:
                prepared = weight.pack == self.family.pack_of(weight.k, weight.n)
                raise Refusal(
                    f"the weight is packed {weight.pack}; {choice.tuned or choice.arm} reads {choice.pack}",
                    hint="name an arm: no one order serves every M of it"
                    if prepared
                    else f"prepare it for family {self.family.name}",
                )
        else:
            known = ARMS.get(arm)
            takes = isinstance(known, DecodeArm) and known.takes_planes
            if takes and planes and weight.k < DECODE_DEPTH:
                raise Refusal(f"{arm}: K = {weight.k} is less than a stage, {DECODE_DEPTH}", hint="name scalar")
            choice = Choice(arm, weight.pack, splits=min(planes, weight.k // DECODE_DEPTH) if takes else 0)
        if choice.splits > planes:
            raise Refusal(f"{choice.arm} takes {choice.splits} planes of workspace; there are {planes}")
        return choice

    def _check_target(self, k: int, n: int) -> None:
        if self._targets_only and not self.family.targets(k, n):
            raise Refusal(f"K = {k}, N = {n} is no target of {self.family.name}", hint="keep your own kernel")


def _column(name: str, scale: Tensor) -> Tensor:
    """A scale as [n], where it is given as that or as [n, 1]."""
    if len(scale.shape) == 2 and scale.shape[1] == 1:
        return replace(scale, shape=scale.shape[:1], strides=scale.strides[:1])
    return scale


def _first_planes(planes: Tensor, splits: int) -> Tensor:
    return replace(planes, shape=(splits, *planes.shape[1:]))
