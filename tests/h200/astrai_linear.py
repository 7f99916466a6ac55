"""Run on a machine with a GPU and torch: the linear layer in graphs, and a transformer trained with it in FP8.

    python tests/h200/astrai_linear.py EVIDENCE.json

`graphs`: a layer's training steps captured as a cycle, replayed on other contents beside the oracle. `training`: a
small transformer in FP8 beside bfloat16, first step by step, then by replays of captured training steps; after each
step all scale rings are held to the oracle, whose maxima torch has measured. A part that fails is told, and the others
go on.
"""

import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tileproof.conformance.environment import capture

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))

from linear_loop import Extents, Graph, Loop

Evidence = dict[str, Any]

WINDOW = 4
EAGER, REPLAYED = 60, 240
LEARNED = 0.5
"""Nats that a model must have gained over its first guess; nothing is said of one curve against the other."""

EXTENTS = (Extents(6, 8, 10), Extents(160, 136, 200), Extents(33, 130, 64))


def main() -> None:
    parts = {"graphs": graphs, "training": training}
    results = {name: told(name, part) for name, part in parts.items()}
    evidence = {
        "what": "the FP8 linear layer on the GPU: captured steps beside the oracle, a transformer beside bfloat16",
        "environment": asdict(capture()),
        **results,
    }
    Path(sys.argv[1]).write_text(json.dumps(evidence, indent=1, default=str) + "\n")
    for name, result in results.items():
        short = {key: value for key, value in result.items() if not key.startswith("losses")}
        sys.stdout.write(f"{name}: {json.dumps(short, default=str)}\n")
    sys.stdout.write(curves(results["training"]))
    sys.exit(0 if all(result["right"] for result in results.values()) else 1)


def told(name: str, part: Callable[[], Evidence]) -> Evidence:
    """A part's result with its seconds; a part that raises is wrong, and says how."""
    start = time.perf_counter()
    try:
        result = part()
    except Exception:
        traceback.print_exc()
        result = {"right": False, "error": traceback.format_exc()}
    return {**result, "seconds": round(time.perf_counter() - start, 1)}


def graphs() -> Evidence:
    """Cycles of captured steps; three times round each."""
    from tileproof.kernels.launch_graph import LaunchGraph
    from tileproof.kernels.recorded_launch import RecordingDevice

    device = RecordingDevice()
    counted: list[dict[str, int]] = []

    def kept(body: Callable[[], None]) -> Graph:
        with device.recorded() as launches:
            body()
        graph = LaunchGraph([launch.run for launch in launches])
        counted.append(dict(graph.kernels))

        def replay() -> list[Any]:
            graph.replay()
            return []

        return replay

    replays = different = 0
    for window in (1, 2, 3, 16):
        for extents in EXTENTS:
            loop = Loop(device, kept, window, extents)
            sizes = 2.0 ** loop.random.uniform(-6, 6, 3 * len(loop.steps))
            for number, size in enumerate(sizes):
                different += loop.replay(loop.steps[number % len(loop.steps)], float(size))[2]
                replays += 1
    kernels = {sum(one.values()) for one in counted}
    return {
        "right": not different and kernels == {9},
        "graphs": len(counted),
        "kernels_of_a_replay": counted[0],
        "replays": replays,
        "tensors_or_rings_different": different,
    }


def training() -> Evidence:
    """On the GPU: steps, then replays."""
    import torch
    from torch_linear import GpuBridge, Runtime
    from train import Rings, Size, built, captured, language

    from tileproof.kernels.fp8_linear_state import phases
    from tileproof.oracle.ring.scale_recipe import ScaleRecipe

    size, device, stream = Size(), torch.device("cuda"), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        text = language(np.random.default_rng(8), size, EAGER + REPLAYED).to(device)
        runtime = Runtime(GpuBridge(), size.layers, ScaleRecipe(WINDOW))
        rings = Rings(runtime)

        def trained(given: Runtime | None, cycle: int, after: Callable[[], None]) -> list[float]:
            trainer = built(given, size, device)
            losses = trainer.run(text[:EAGER], lambda number: trainer.step(), after)
            graphs = captured(trainer, cycle, stream)
            return losses + trainer.run(text[EAGER:], lambda number: graphs[number % cycle].replay(), after)

        losses = {
            "fp8": trained(runtime, phases(runtime.recipe), lambda: rings.check(runtime.words, runtime.maxima)),
            "bf16": trained(None, 1, lambda: None),
        }
    return summary(losses, rings)


def summary(losses: dict[str, list[float]], rings: Any) -> Evidence:
    """Whether every ring was right in every step, and both models have learned."""
    ends = {name: float(np.mean(curve[-20:])) for name, curve in losses.items()}
    learned = all(np.isfinite(curve).all() and ends[name] < curve[0] - LEARNED for name, curve in losses.items())
    steps = len(losses["fp8"])
    return {
        "right": learned and not rings.different and rings.steps == steps,
        "steps": steps,
        "of_them_replayed_graphs": REPLAYED,
        "rings": len(rings.states),
        "folds_checked": rings.folds,
        "ring_words_compared": rings.compared,
        "ring_words_different": rings.different,
        "first_difference": rings.first,
        "loss_at_the_start": {name: curve[0] for name, curve in losses.items()},
        "mean_of_the_last_20": ends,
        "losses_fp8": losses["fp8"],
        "losses_bf16": losses["bf16"],
    }


def curves(result: Evidence) -> str:
    """The two loss curves, side by side, every twentieth step."""
    if "losses_fp8" not in result:
        return ""
    rows = zip(result["losses_fp8"], result["losses_bf16"], strict=True)
    lines = [f"{number:5d}  {fp8:8.4f}  {bf16:8.4f}" for number, (fp8, bf16) in enumerate(rows) if number % 20 == 0]
    return "\n".join([" step       fp8      bf16", *lines]) + "\n"


if __name__ == "__main__":
    main()
