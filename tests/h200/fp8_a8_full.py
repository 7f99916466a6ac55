"""Run on a machine with an H200: the FP8 product at ninfer's full geometries, every output of every width.

    python tests/h200/fp8_a8_full.py EVIDENCE.json [--widths T ...] [--sites NAME ...] [--no-twin]
        [--families N] [--rows-over N]

Each call site runs at every width on the TMA kernel, on the cp.async kernel and by the selector, over poisoned outputs.
`e4m3_gemm` adds up in plain integers what the matrix unit adds up, `fp8_a8_judge` holds each output to that, and the
TMA kernel's words are compared with the cp.async kernel's. Rows past T must keep their poison, and inputs must stay.
A sample with both sides of every tile's edge is held to the numpy oracle itself. `--no-twin` leaves both out,
`--families` takes the first ones only and `--rows-over` a part of every weight: for compute-sanitizer, under which only
the kernels' own accesses matter.
"""

import argparse
import hashlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tileproof.conformance.environment import capture
from tileproof.kernels.compile import compile_source
from tileproof.kernels.device import Buffer, Device
from tileproof.kernels.fp8_a8_arguments import Operands
from tileproof.kernels.fp8_a8_calibration import find_calibration
from tileproof.kernels.fp8_a8_call_site import NINFER_SHAPES, CallSite
from tileproof.kernels.fp8_a8_gemm import Fp8A8Gemm, kernel_name
from tileproof.kernels.fp8_a8_selector import Problem, Route, select
from tileproof.kernels.reference.e4m3_gemm import Arithmetic, E4m3Gemm
from tileproof.kernels.reference.fp8_a8_judge import Fp8A8Judge, Sums, Verdict
from tileproof.kernels.source import expanded
from tileproof.kernels.tensor import Tensor
from tileproof.oracle.epilogue import NINFER_LINEAR, NINFER_LINEAR_ADD, Contraction
from tileproof.oracle.epilogues.epilogue_array import Operands as Given
from tileproof.oracle.epilogues.epilogue_array import apply_epilogue
from tileproof.oracle.epilogues.silu import CUDA_EX2_SILU, silu_table
from tileproof.oracle.epilogues.swiglu import swiglu_of_rows
from tileproof.oracle.gemm import gemm
from tileproof.oracle.products.accumulation_order import AccumulationOrder, RaggedK

Array = NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
WORD = np.dtype(np.uint32)

WIDTHS = (*range(1, 66), 255, 256, 257, 1023, 1024, 1153, 1345, 4001, 4096, 4160, 4288, 8192)
FEW_WIDTHS = (1, 65, 257, 1153, 4288)
FAMILIES = ("every exponent", "one large product")
PARTS = {"attn_input_proj": (6, 1, 6, 1), "gdn_input_proj": (5, 3)}
FORCED = (Route.TMA, Route.CP_ASYNC)
CALIBRATION = "rtx5090"
POISON = 0xFFFFFFFF
PAST = 300  # tokens past the end that must keep their poison
SAMPLE_WIDTH, SAMPLE_TOKENS, SAMPLE_COLUMNS = 1345, 128, 1024
ORDER = AccumulationOrder(
    instruction="mma.m16n8k32.f32.e4m3.e4m3", arch="sm_90a", assembler="13.0", ragged_k=RaggedK.ZERO_FILL
)


@dataclass
class Result:
    """What one call site at one geometry with one family of codes gave."""

    site: str
    rows: int
    depth: int
    family: str
    widths: list[int]
    launches: dict[str, int] = field(default_factory=Counter)
    selected: dict[str, int] = field(default_factory=Counter)
    outputs_judged: int = 0
    different: int = 0
    first_different: list[str] = field(default_factory=list)
    words_that_differ_between_routes: int = 0
    words_written_past_the_end: int = 0
    inputs_changed: bool = False
    sampled: int = 0
    sampled_different: int = 0
    findings: int = 0
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether nothing is wrong."""
        counts = (self.different, self.words_that_differ_between_routes, self.words_written_past_the_end)
        return not any((*counts, self.inputs_changed, self.sampled_different, self.findings))

    def row(self) -> dict[str, Any]:
        """For the evidence file."""
        # NOTE: asdict makes of a Counter one that counts its pairs.
        return asdict(replace(self, launches=dict(self.launches), selected=dict(self.selected)))


class Operator:
    """One call site at one geometry, with its operands for up to `most` tokens on a device."""

    def __init__(self, device: Device, site: CallSite, rows: int, depth: int, most: int, family: str) -> None:
        random = np.random.default_rng(2026)
        self.device, self.site, self.rows, self.depth, self.most = device, site, rows, depth, most
        # NOTE: constants by which the selector takes either kernel: on this device its own always take cp.async.
        self.gemm = Fp8A8Gemm(device, site, calibration=CALIBRATION)
        self.codes, self.weight = codes(random, most, depth, family), codes(random, rows, depth, family)
        self.codes[min(64, most - 1), depth - 1] = 0x7F  # a token of NaN, first of a tile
        scale = 2.0**-14 if site.paired else 2.0**-8
        self.scales = (random.uniform(0.5, 2, most) * scale).astype(np.float32)
        self.weight_scales = random.uniform(0.5, 2, rows).astype(BF16)
        self.residual = (random.standard_normal((most if site.adds else 0, rows)) * 1e3).astype(BF16)
        arrays = (self.codes, self.scales, self.weight, self.weight_scales)
        self.buffers = [device.upload(array) for array in arrays]
        self.kept = [device.upload(array) for array in arrays]
        self.residuals = device.upload(self.residual) if site.adds else None
        self.outputs = {route: self._outputs() for route in FORCED}

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns of the outputs."""
        parts = PARTS.get(self.site.name, (1,))
        return (self.rows // 2,) if self.site.paired else tuple(self.rows * part // sum(parts) for part in parts)

    def _outputs(self) -> list[Buffer]:
        return [self.device.allocate((self.most + PAST, width), BF16) for width in self.widths]

    def operands(self, tokens: int) -> Operands:
        """Of the first tokens."""
        a, scales, b, weight_scales = self.buffers
        return Operands(rows_of(a, tokens), part_of(scales, 0, tokens), Tensor.whole(b), Tensor.whole(weight_scales))

    def run(self, judge: Fp8A8Judge, tokens: int, route: Route, *, choose: bool = False) -> tuple[str, int]:
        """Poison, launch, and the route that ran with the number of findings; `choose`: the selector's."""
        outputs = self.outputs[route]
        for buffer in outputs:
            judge.put(words_of(buffer), POISON)
        if self.residuals is not None:
            judge.put(words_of(outputs[0], 0, tokens), words_of(self.residuals, 0, tokens))
        given = [rows_of(buffer, tokens) for buffer in outputs]
        launch = self.gemm(self.operands(tokens), given, route=None if choose else route)
        return launch.route, len(launch.report.findings) if launch.report is not None else 0

    def past_the_end(self, judge: Fp8A8Judge, tokens: int, route: Route) -> int:
        """Words after the last token that lost their poison."""
        tails = (words_of(buffer, tokens, self.most + PAST) for buffer in self.outputs[route])
        return sum(judge.words(tail, POISON).different for tail in tails)

    def apart(self, judge: Fp8A8Judge) -> int:
        """Words in which the routes' outputs differ, what lies past the end included."""
        pairs = zip(*(self.outputs[route] for route in FORCED), strict=True)
        return sum(judge.words(words_of(one), words_of(other)).different for one, other in pairs)

    def inputs_changed(self, judge: Fp8A8Judge) -> bool:
        """Whether any input does."""
        pairs = zip(self.buffers, self.kept, strict=True)
        return any(judge.words(words_of(one), words_of(other)).different for one, other in pairs)

    def free(self) -> None:
        """Give all memory back."""
        outputs = [buffer for buffers in self.outputs.values() for buffer in buffers]
        for buffer in (*self.buffers, *self.kept, *outputs, *([self.residuals] if self.residuals is not None else [])):
            self.device.free(buffer)


class Twin:
    """Right sums of an operator on its device, and the judge's verdict on outputs."""

    def __init__(self, operator: Operator, judge: Fp8A8Judge, twin: E4m3Gemm) -> None:
        self.operator, self.judge = operator, judge
        device = operator.device
        self.sums = device.allocate((operator.most, operator.rows), np.dtype(np.float32))
        a, _, b, _ = (Tensor.whole(buffer) for buffer in operator.buffers)
        twin(Arithmetic.MMA_SM90, a, b, Tensor.whole(self.sums))
        self.tables = [device.upload(table) for table in silu_table(CUDA_EX2_SILU)] if operator.site.paired else []

    def verdicts(self, tokens: int, route: Route) -> Iterator[tuple[str, Verdict]]:
        """Of each output, by name."""
        operator, begin = self.operator, 0
        for name, buffer in zip(operator.site.outputs, operator.outputs[route], strict=True):
            width = buffer.shape[1]
            needed = 2 * width if operator.site.paired else width
            sums = Sums(
                rows_of(self.sums, tokens, begin, needed),
                part_of(operator.buffers[1], 0, tokens),
                part_of(operator.buffers[3], begin, needed),
            )
            out = rows_of(buffer, tokens)
            if operator.site.paired:
                yield name, self.judge.swiglu(sums, out, *(Tensor.whole(table) for table in self.tables))
            else:
                residual = rows_of(operator.residuals, tokens) if operator.residuals is not None else None
                yield name, self.judge.product(sums, out, residual)
            begin += needed

    def free(self) -> None:
        """Give all memory back."""
        for buffer in (self.sums, *self.tables):
            self.operator.device.free(buffer)


def run(
    operator: Operator,
    judge: Fp8A8Judge,
    twin: E4m3Gemm | None,
    widths: Sequence[int],
    family: str,
    arch: str = "sm_90a",
) -> Result:
    """All widths of one operator; without a twin the outputs are only compared between routes."""
    start = time.perf_counter()
    result = Result(operator.site.name, operator.rows, operator.depth, family, sorted(widths))
    right = Twin(operator, judge, twin) if twin is not None else None
    for tokens in result.widths:
        for route, choose in ((Route.TMA, True), (Route.TMA, False), (Route.CP_ASYNC, False)):
            taken, findings = operator.run(judge, tokens, route, choose=choose)
            (result.selected if choose else result.launches)[taken] += 1
            result.findings += findings
            result.words_written_past_the_end += operator.past_the_end(judge, tokens, route)
            for name, verdict in right.verdicts(tokens, route) if right is not None else ():
                result.outputs_judged += tokens * operator.widths[operator.site.outputs.index(name)]
                result.different += verdict.different
                if verdict.different:
                    by = "selected" if choose else "forced"
                    result.first_different.append(f"T = {tokens}, {taken} ({by}), {name} {verdict.first}")
        result.words_that_differ_between_routes += operator.apart(judge)
    result.inputs_changed = operator.inputs_changed(judge)
    if right is not None:
        right.free()
        result.sampled, result.sampled_different = sampled(operator, judge, arch)
    result.seconds = round(time.perf_counter() - start, 1)
    return result


def sampled(operator: Operator, judge: Fp8A8Judge, arch: str) -> tuple[int, int]:
    """Outputs of the TMA kernel that were held to the numpy oracle, and those that differ from it."""
    random = np.random.default_rng(7)
    tokens = min(SAMPLE_WIDTH, operator.most)
    operator.run(judge, tokens, Route.TMA)
    found = np.concatenate([buffer.download()[:tokens] for buffer in operator.outputs[Route.TMA]], axis=1)
    chosen = edges(random, tokens, 64, SAMPLE_TOKENS)
    columns = edges(random, found.shape[1], 64, SAMPLE_COLUMNS)
    halves = (columns, columns + found.shape[1]) if operator.site.paired else (columns,)
    rows = np.concatenate(halves)
    given = Given(
        accumulators=gemm(order_of(arch), operator.codes[chosen], operator.weight[rows]),
        factors=(operator.scales[chosen], operator.weight_scales[rows]),
        addend=operator.residual[np.ix_(chosen, rows)] if operator.site.adds else None,
    )
    rule = NINFER_LINEAR_ADD.contracted(Contraction.SCALE) if operator.site.adds else NINFER_LINEAR
    product = apply_epilogue(rule, given)
    observed = np.ascontiguousarray(found[np.ix_(chosen, columns)])
    if operator.site.paired:
        same = swiglu_of_rows(product, CUDA_EX2_SILU, width=columns.size).allows(observed)
    else:
        same = observed.view(np.uint16) == np.ascontiguousarray(product).view(np.uint16)
    return observed.size, int((~same).sum())


def order_of(arch: str) -> AccumulationOrder:
    """The order of the sums on an architecture."""
    return AccumulationOrder(
        instruction=ORDER.instruction, arch=arch, assembler=ORDER.assembler, ragged_k=ORDER.ragged_k
    )


def edges(random: np.random.Generator, extent: int, tile: int, count: int) -> NDArray[np.int64]:
    """Both sides of every edge of a tile, the ends, and as many others as make `count`."""
    places = {0, extent - 1, *(edge + side for edge in range(tile, extent, tile) for side in (-1, 0))}
    others = random.permutation(extent)[: max(0, count - len(places))]
    return np.array(sorted(places | set(others.tolist())), np.int64)


def codes(random: np.random.Generator, rows: int, depth: int, family: str) -> NDArray[np.uint8]:
    """Finite codes of every exponent and sign; or one large code a row among small ones."""
    made = random.integers(0, 256, (rows, depth), np.uint8)
    made[made & 0x7F == 0x7F] ^= 0x40
    if family == "one large product":
        made &= 0x9F
        made[:, 0] = 0x7E
    return made


def rows_of(buffer: Buffer, rows: int, begin: int = 0, columns: int | None = None) -> Tensor:
    """The first rows of a matrix, or some columns of them."""
    pitch = buffer.shape[1]
    return Tensor(buffer, buffer.dtype, (rows, columns or pitch), (pitch, 1), begin * buffer.dtype.itemsize)


def part_of(buffer: Buffer, begin: int, count: int) -> Tensor:
    """Some elements of a vector."""
    return Tensor(buffer, buffer.dtype, (count,), (1,), begin * buffer.dtype.itemsize)


def words_of(buffer: Buffer, begin: int = 0, end: int | None = None) -> Tensor:
    """The rows from `begin` to `end` as 32-bit words; what does not fill a word is left out."""
    pitch = buffer.nbytes // buffer.shape[0]
    rows = (buffer.shape[0] if end is None else end) - begin
    return Tensor(buffer, WORD, (rows * pitch // 4,), (1,), begin * pitch)


def boundaries(site: CallSite, rows: int, depth: int, sm_count: int, most: int) -> set[int]:
    """Widths beside those at which the selector changes its mind."""
    calibration = find_calibration(CALIBRATION)

    def chosen(tokens: int) -> Route:
        problem = Problem(arch="sm_90a", tokens=tokens, rows=rows, depth=depth)
        return select(problem, sm_count, calibration)

    steps = range(64, most, 64)
    last = [tokens for tokens in (*steps, 1023) if chosen(tokens) is not chosen(tokens + 1)]
    return {tokens + side for tokens in last for side in (-1, 0, 1, 2) if 0 < tokens + side <= most}


def main(arguments: Iterable[str] | None = None) -> None:
    from tileproof.kernels.cupy_device import CupyDevice

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("--widths", type=int, nargs="+")
    parser.add_argument("--sites", nargs="+")
    parser.add_argument("--no-twin", action="store_true")
    parser.add_argument("--families", type=int, default=len(FAMILIES))
    parser.add_argument("--rows-over", type=int, default=1)
    options = parser.parse_args(None if arguments is None else list(arguments))
    device = CupyDevice()
    judge, twin = Fp8A8Judge(device), None if options.no_twin else E4m3Gemm(device)
    results = []
    for site, rows, depth in NINFER_SHAPES:
        if options.sites and site.name not in options.sites:
            continue
        rows //= options.rows_over
        for family in FAMILIES[: options.families]:
            few = options.widths or (FEW_WIDTHS if family != "every exponent" else WIDTHS)
            near = set() if options.widths else boundaries(site, rows, depth, device.sm_count, max(few))
            widths = {*few, *(near if family == "every exponent" else ())}
            operator = Operator(device, site, rows, depth, max(widths), family)
            results.append(run(operator, judge, twin, sorted(widths), family))
            operator.free()
            sys.stdout.write(json.dumps(results[-1].row()) + "\n")
            sys.stdout.flush()
    texts = {route: expanded(kernel_name(route)) for route in FORCED}
    modules = {route: compile_source(text, name=f"{kernel_name(route)}.cu") for route, text in texts.items()}
    evidence = {
        "what": "outputs of the FP8 product at ninfer's geometries against the integer twin, route by route",
        "kernels_sha256": {route: hashlib.sha256(text.encode()).hexdigest() for route, text in texts.items()},
        "compiler": modules[Route.TMA].compiler,
        "environment": asdict(capture()),
        "results": [result.row() for result in results],
    }
    options.evidence.write_text(json.dumps(evidence, indent=1, default=str) + "\n")
    wrong = [result for result in results if not result.right]
    total = sum(result.outputs_judged for result in results)
    sys.stdout.write(f"{total} outputs judged, {sum(result.different for result in results)} differ\n")
    sys.exit(1 if wrong or not results else 0)


if __name__ == "__main__":
    main()
