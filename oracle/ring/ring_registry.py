"""Which rings belong to which weight: the key, its failures, and checkpoints.

Every weight has three rings, of w, x and g. Until the double-buffered stage they were found by (address, shape, dtype)
alone. An allocator hands the address of a dead weight to the next one of the same size, which then casts with scales of
somebody else's magnitudes; and a changed recipe found the old window. Since then an entry is used only while the weight
that it was made for is alive and the window and margin are the same; otherwise it is dropped and made anew, and every
cached cast of the process is void (`generation`). A changed *format* alone still finds the old ring, whose scale was
derived with the other FP8_MAX until the next fold: from E5M2 to E4M3FN it is 128 times too small, so one step
saturates (inferred from @17ac3709, `get_meta`, which compares window, margin and recipe kind).

A checkpoint holds the entries in the order of their registration. They are bound again by (shape, dtype) in that order,
since addresses mean nothing in another process; so an entry of a dead weight would shift all later ones, and is left
out. A ring of another size stays fresh and is seeded on its next use.

Sources: 0z5a/AstrAI astrai/extension/fp8.py (ring era), tests/extension/test_fp8_lifecycle.py @0ec5f297, csrc/gemm/
{fp8_state.h @17ac3709, fp8_linear.cu @2fb0b143}. Named slots, by which a module keeps its rings when its weight is
replaced, are not modelled.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from tileproof.oracle.refusal import Refusal
from tileproof.oracle.ring.ring_stage import KeyRule, RingStage
from tileproof.oracle.ring.ring_state import RingState, fresh, scale_field
from tileproof.oracle.ring.scale_recipe import Role, ScaleRecipe
from tileproof.oracle.scale_ring import with_scale


@dataclass(frozen=True)
class Weight:
    """A weight tensor as the registry sees it."""

    #: Which object it is; never used twice, as an address is.
    identity: int
    address: int
    shape: tuple[int, ...]
    dtype: str = "torch.bfloat16"

    @property
    def key(self) -> tuple[int, tuple[int, ...], str]:
        """What the registry looks up."""
        return self.address, self.shape, self.dtype


@dataclass(frozen=True)
class Entry:
    """The rings of one weight, and the recipe that they were made for."""

    weight: Weight
    recipe: ScaleRecipe
    w: RingState
    x: RingState
    g: RingState

    def ring(self, role: Role) -> RingState:
        """The ring of a role."""
        return {Role.WEIGHT: self.w, Role.ACTIVATION: self.x, Role.GRADIENT: self.g}[role]

    def with_ring(self, role: Role, ring: RingState) -> "Entry":
        """The entry with one ring replaced."""
        match role:
            case Role.WEIGHT:
                return replace(self, w=ring)
            case Role.ACTIVATION:
                return replace(self, x=ring)
            case Role.GRADIENT:
                return replace(self, g=ring)


@dataclass(frozen=True)
class Registry:
    """All rings of a process, in the order of their registration."""

    stage: RingStage
    entries: tuple[Entry, ...] = ()
    #: Entries of a checkpoint that no weight has claimed yet.
    pending: tuple[Entry, ...] = ()
    #: Counts what voids every cached cast.
    generation: int = 0

    def find(self, weight: Weight, recipe: ScaleRecipe) -> tuple["Registry", Entry]:
        """The entry of a weight, made or restored where there is none, and the registry that holds it."""
        known = next((entry for entry in self.entries if entry.weight.key == weight.key), None)
        if known is not None and self._usable(known, weight, recipe):
            return self, known
        registry = self if known is None else self._without(known)
        ring = fresh(self.stage, recipe.window)
        entry, pending = _restore(Entry(weight, recipe, ring, ring, ring), registry.pending)
        return replace(registry, entries=(*registry.entries, entry), pending=pending), entry

    def update(self, entry: Entry) -> "Registry":
        """The registry after a step has changed an entry's rings.

        Raises:
            Refusal: the registry does not hold that weight.
        """
        keys = [known.weight.key for known in self.entries]
        if entry.weight.key not in keys:
            raise Refusal(f"no rings at address {entry.weight.address:#x}", hint="find() the weight first")
        place = keys.index(entry.weight.key)
        return replace(self, entries=(*self.entries[:place], entry, *self.entries[place + 1 :]))

    def snapshot(self, alive: Collection[int]) -> tuple["Registry", tuple[Entry, ...]]:
        """What a checkpoint stores: the entries whose weight is among the identities `alive`; the others are dropped.

        The stages that key by address cannot tell, and store all.
        """
        if self.stage.key is KeyRule.ADDRESS:
            return self, self.entries
        kept = tuple(entry for entry in self.entries if entry.weight.identity in alive)
        return replace(self, entries=kept), kept

    def load(self, saved: tuple[Entry, ...]) -> "Registry":
        """Queues a checkpoint; weights claim from it when they are next made or, if they exist, at once."""
        registry = replace(self, pending=saved, generation=self.generation + 1)
        for entry in self.entries:
            restored, pending = _restore(entry, registry.pending)
            registry = replace(registry.update(restored), pending=pending)
        return registry

    def reset(self) -> "Registry":
        """Forgets all rings and the queue."""
        return replace(self, entries=(), pending=(), generation=self.generation + 1)

    def _usable(self, entry: Entry, weight: Weight, recipe: ScaleRecipe) -> bool:
        if self.stage.key is KeyRule.ADDRESS:
            return True
        same_recipe = (entry.recipe.window, entry.recipe.margin) == (recipe.window, recipe.margin)
        return same_recipe and entry.weight.identity == weight.identity

    def _without(self, entry: Entry) -> "Registry":
        entries = tuple(known for known in self.entries if known is not entry)
        return replace(self, entries=entries, generation=self.generation + 1)


def restore_ring(ring: RingState, saved: RingState) -> RingState:
    """A ring filled from a checkpoint: words, index, current pair, whether it was seeded; no kept cast.

    The reciprocal of the current pair is computed again (infinite in a ring that was never seeded, until it is). Of
    another size than the ring, the saved one is left alone.
    """
    if len(saved.words) != len(ring.words):
        return ring
    restored = replace(saved, window=ring.window, stage=ring.stage, cast=None)
    return with_scale(restored, restored.read(scale_field(restored.current)))


def _restore(entry: Entry, pending: tuple[Entry, ...]) -> tuple[Entry, tuple[Entry, ...]]:
    """Binds the first queued entry of the same shape and dtype, which leaves the queue even if its size is another."""
    wanted = (entry.weight.shape, entry.weight.dtype)
    for place, saved in enumerate(pending):
        if (saved.weight.shape, saved.weight.dtype) == wanted:
            for role in Role:
                entry = entry.with_ring(role, restore_ring(entry.ring(role), saved.ring(role)))
            return entry, (*pending[:place], *pending[place + 1 :])
    return entry, pending
