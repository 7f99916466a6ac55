"""A small transformer on a made-up language, in FP8 by our layer or in bfloat16 by torch, its rings beside the oracle.

The language: a letter is one of four that its two predecessors choose, with chances 0.7, 0.15, 0.1 and 0.05. That is
0.91 nats of the 2.77 that 16 letters have: where a model can get to, and where it begins.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch_linear import ROLES, Fp8Layer, Runtime

from tileproof.oracle.ring.amax import Amax
from tileproof.oracle.ring.ring_stage import DOUBLE_BUFFERED
from tileproof.oracle.ring.ring_state import RingState, fresh
from tileproof.oracle.scale_ring import step

LETTERS = 16
CHANCES = (0.7, 0.15, 0.1, 0.05)


@dataclass(frozen=True)
class Size:
    """Of the model and its batches."""

    blocks: int = 3
    width: int = 256
    heads: int = 4
    batch: int = 16
    length: int = 128

    @property
    def layers(self) -> int:
        """Linear layers that are FP8: four a block."""
        return 4 * self.blocks


class Block(torch.nn.Module):
    """Attention and two layers behind each other, each added to its input."""

    def __init__(self, runtime: Runtime | None, number: int, size: Size) -> None:
        super().__init__()
        width, self.heads, first = size.width, size.heads, 4 * number
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv = Fp8Layer(runtime, first, width, 3 * width)
        self.out = Fp8Layer(runtime, first + 1, width, width)
        self.up = Fp8Layer(runtime, first + 2, width, 4 * width)
        self.down = Fp8Layer(runtime, first + 3, 4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, T, C] bfloat16."""
        batch, length, width = x.shape
        normed = self.norms[0](x.float()).to(torch.bfloat16)
        parts = self.qkv(normed).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        met = torch.nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(met.transpose(1, 2).reshape(batch, length, width))
        inner = torch.nn.functional.gelu(self.up(self.norms[1](x.float()).to(torch.bfloat16)))
        return x + self.down(inner)


class Model(torch.nn.Module):
    """Letters to chances of the next; embedding and head are torch's."""

    def __init__(self, runtime: Runtime | None, size: Size) -> None:
        super().__init__()
        self.letters = torch.nn.Embedding(LETTERS, size.width)
        self.places = torch.nn.Embedding(size.length, size.width)
        self.blocks = torch.nn.ModuleList(Block(runtime, number, size) for number in range(size.blocks))
        self.norm = torch.nn.LayerNorm(size.width)
        self.head = torch.nn.Linear(size.width, LETTERS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """[B, T] to [B, T, letters], float32."""
        places = torch.arange(text.shape[1], device=text.device)
        x = (self.letters(text) + self.places(places)).to(torch.bfloat16)
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x.float()))
        return logits


def language(random: np.random.Generator, size: Size, batches: int) -> torch.Tensor:
    """int64 [batches, B, T + 1]."""
    followers = np.random.default_rng(7).integers(0, LETTERS, (LETTERS, LETTERS, len(CHANCES)))
    text = random.integers(0, LETTERS, (batches, size.batch, size.length + 1))
    for at in range(2, size.length + 1):
        chosen = random.choice(len(CHANCES), text.shape[:2], p=CHANCES)
        text[..., at] = followers[text[..., at - 2], text[..., at - 1], chosen]
    return torch.from_numpy(text)


@dataclass
class Rings:
    """The oracle's rings of all layers, step after step, and how many words differed."""

    runtime: Runtime
    states: list[RingState] = field(default_factory=list)
    steps: int = 0
    compared: int = 0
    different: int = 0
    folds: int = 0
    first: str = ""

    def check(self, words: torch.Tensor, maxima: torch.Tensor) -> None:
        """The rings after a step in which each was folded once, from the maxima that torch measured."""
        recipe = self.runtime.recipe
        if not self.states:
            self.states = [fresh(DOUBLE_BUFFERED, recipe.window)] * maxima.numel()
        found = words.detach().cpu().numpy().view(np.uint32).reshape(len(self.states), -1)
        for number, amax in enumerate(maxima.detach().cpu().numpy()):
            role = ROLES[number % len(ROLES)]
            state = self.states[number] = step(self.states[number], Amax(np.float32(amax)), recipe, role).state
            wrong = int((found[number] != np.array(state.words, np.uint32)).sum())
            if wrong and not self.first:
                self.first = f"step {self.steps}, layer {number // len(ROLES)}, ring of {role.value}: {wrong} words"
            self.different += wrong
            self.compared += len(state.words)
            self.folds += 1
        self.steps += 1


class Trainer:
    """One model, its optimiser, and where its step reads and writes.

    Args:
        model: whose parameters are trained.
        size: of the batches.
        device: torch's.
    """

    def __init__(self, model: Model, size: Size, device: torch.device) -> None:
        self.model = model.to(device)
        on_gpu = device.type == "cuda"
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, capturable=on_gpu, weight_decay=0.01)
        self.text = torch.zeros(size.batch, size.length + 1, dtype=torch.int64, device=device)
        self.loss = torch.zeros((), device=device)

    def step(self) -> None:
        """One step on `text`; the loss goes to `loss`."""
        self.optimiser.zero_grad(set_to_none=True)
        logits = self.model(self.text[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, LETTERS), self.text[:, 1:].reshape(-1))
        loss.backward()
        self.optimiser.step()
        self.loss.copy_(loss.detach())

    def run(self, text: torch.Tensor, take: Callable[[int], None], after: Callable[[], None]) -> list[float]:
        """Steps through batches: the losses. `take` makes step n; `after` follows each."""
        losses = []
        for number, batch in enumerate(text):
            self.text.copy_(batch)
            take(number)
            losses.append(float(self.loss))
            after()
        return losses


def built(runtime: Runtime | None, size: Size, device: torch.device) -> Trainer:
    """A model that begins with the same parameters, whoever multiplies."""
    torch.manual_seed(1)
    return Trainer(Model(runtime, size), size, device)


def captured(trainer: Trainer, count: int, stream: Any) -> list[Any]:
    """The next steps, as many, each in a graph of its own; nothing runs."""
    graphs = []
    for _ in range(count):
        graph = torch.cuda.CUDAGraph()
        trainer.optimiser.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            trainer.step()
        graphs.append(graph)
    return graphs
