"""Matrix units against mmasim and mmaemu on one core: multiply-adds a second, all from raw codes to D.

The peers need torch. Where they are not installed their part is not run, and is said to be so. Each peer gets its
fastest batch of dot products; mmaemu's GEMM, which starts from C = 0, stands beside them and has no floor.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.report import best_seconds, show
from tileproof.conformance.matrix_inputs import MatrixInputs
from tileproof.conformance.matrix_peers import Peer, peers
from tileproof.oracle.matrix_unit import describe, multiply_add
from tileproof.oracle.units.instruction import Instruction, parse_instruction

_ARCH = "sm_90"
#: Multiply-adds of one run: some milliseconds, so that the best run on a busy machine is an undisturbed one.
_WORK = 1 << 21
#: Dot products that a peer computes at a time: those of a few tiles, and enough to hide what a call costs.
_PEER_DOTS = (2_048, 16_384)
#: Another operation, shown for comparison: no C, finite operands only, whole matrices.
_GEMM = "mmaemu, GEMM from C = 0"
_SPEED_FLOOR, _RATIO_FLOOR = 300.0, 10.0

_MEASURED = {
    "wgmma.m64n8k32.f32.e4m3.e4m3": True,
    "mma.m16n8k32.f32.e4m3.e4m3": True,
    "wgmma.m64n8k16.f32.bf16.bf16": False,
    "mma.m16n8k16.f16.f16.f16": False,
    "mma.m16n8k8.f32.tf32.tf32": False,
    "mma.m16n8k32.s32.s8.s8": False,
}
"""Instruction, and whether the floors hold for it."""


def main() -> None:
    """Prints speeds, ratios and the floors they must reach."""
    show("matrix_unit: one core, best of 15 in turn, million multiply-adds a second")
    found = _peers()
    for name, has_floor in _MEASURED.items():
        instruction = parse_instruction(name)
        runs = [("tileproof", *_ours(instruction)), *_peer_runs(found, instruction)]
        seconds = best_seconds(*(run for _, _, run in runs), repeats=15)
        speeds = {form: work / best / 1e6 for (form, work, _), best in zip(runs, seconds, strict=True)}
        _report(name, has_floor, speeds)


def _report(name: str, has_floor: bool, speeds: dict[str, float]) -> None:
    ours = speeds.pop("tileproof")
    floor = f"  (floor {_SPEED_FLOOR:g}: {_verdict(ours >= _SPEED_FLOOR)})" if has_floor else ""
    show(f"  {name:<30} {ours:7.0f}{floor}")
    for form, speed in speeds.items():
        show(f"    {form:<28} {speed:7.1f}  ratio {ours / speed:.0f}")
    if not speeds:
        show("    no peer was run")
    elif has_floor:
        ratio = ours / max(speed for form, speed in speeds.items() if form != _GEMM)
        show(f"    against the faster: {ratio:.1f}  (floor {_RATIO_FLOOR:g}: {_verdict(ratio >= _RATIO_FLOOR)})")


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def _ours(instruction: Instruction) -> tuple[int, Callable[[], object]]:
    """Whole tiles of the instruction's own shape."""
    m, n, k = instruction.shape.m, instruction.shape.n, instruction.shape.k
    tiles = _WORK // (m * n * k)
    inputs = _inputs(instruction, (tiles, m, n))
    return tiles * m * n * k, lambda: multiply_add(instruction.name, inputs.a, inputs.b, inputs.c, arch=_ARCH)


def _inputs(instruction: Instruction, shape: tuple[int, int, int]) -> MatrixInputs:
    """Finite operands of moderate size; no speed here depends on values but for NaN and infinities."""
    tiles, m, n = shape
    random = np.random.default_rng(0)
    codes = []
    for operand, size in ((instruction.a, m), (instruction.b, n)):
        numbers = random.standard_normal((tiles, size, instruction.shape.k)).astype(np.float32)
        if operand.name == "tf32":
            codes.append(numbers.view(np.uint32))
        elif operand.record is None:
            codes.append((numbers * 40).clip(-128, 127).astype(operand.code_dtype))
        else:
            codes.append(getattr(operand.record, "encode")(numbers))  # noqa: B009  (FormatRecord has no encode)
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[instruction.accumulator]
    return MatrixInputs(codes[0], codes[1], random.standard_normal((tiles, m, n)).astype(dtype))


def _peers() -> tuple[Peer, ...]:
    try:
        import_module("torch").set_num_threads(1)
        return peers()
    except ImportError as error:
        show(f"  mmasim and mmaemu: not run ({error})")
        return ()


def _peer_runs(found: tuple[Peer, ...], instruction: Instruction) -> list[tuple[str, int, Callable[[], object]]]:
    """Name, multiply-adds and call of each form of each peer."""
    unit, k = describe(instruction.name, arch=_ARCH).unit, instruction.shape.k
    runs: list[tuple[str, int, Callable[[], object]]] = []
    for peer in found:
        if not peer.covers(instruction, _ARCH, unit):
            continue
        for dots in _PEER_DOTS:
            inputs = _inputs(instruction, (dots, 1, 1))
            run = _bound(peer, instruction, inputs)
            runs.append((f"{peer.name}, {dots} dots", dots * k, run))
        if peer.name == "mmaemu":
            runs.append(_chain_gemm(instruction))
    return runs


def _bound(peer: Peer, instruction: Instruction, inputs: MatrixInputs) -> Callable[[], object]:
    unit = describe(instruction.name, arch=_ARCH).unit
    return lambda: peer.dots(instruction, _ARCH, unit, inputs)


def _chain_gemm(instruction: Instruction) -> tuple[str, int, Callable[[], object]]:
    """mmaemu's GEMM of one instruction's K in a chain of 16, from C = 0."""
    torch, chain = import_module("torch"), import_module("mmaemu.model.chain")
    size, depth = 128, 4 * instruction.shape.k
    random = np.random.default_rng(0)
    a, b = (_gemm_codes(instruction, (size, depth), random) for _ in range(2))
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    formats = dict(zip(("fmt_a", "fmt_b"), instruction.operands, strict=True))
    return (
        _GEMM,
        size * size * depth,
        lambda: chain.chain_gemm(x, y, **formats, preset="hopper"),
    )


def _gemm_codes(instruction: Instruction, shape: tuple[int, int], random: np.random.Generator) -> Any:
    return getattr(instruction.a.record, "encode")(random.standard_normal(shape).astype(np.float32))  # noqa: B009
