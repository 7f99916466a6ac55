"""Faults of the rule files that no pair of kernels misses, and why that is right."""

QUICK = "a way out for speed, or work that is done already: the result is the same without it"
KIND = "the plane that tells a scope that is too small learns the same, and more, by itself"
NEVER = "the number is never 0"
ROOM = "more room, or other numbers, than needed"
PLANE = "a plane, or the patterns of strong accesses, where the program needs none: nobody learns anything there"
OFF = "without checks a wave makes what nobody asks then"
PARTS = "in more parts than needed: the same accesses are found"
FIRST = "no wave has more warps than the first, whose room the others use"
ASKED = "more must be known for the short cut, and what does not pass there is checked in full"
PEERS = "nobody touches the shared memory of a block without peers at its end"
VIEW = "what an access that does not race reads of the async proxy's view, where there is one, is what memory holds"
TOLD = "what anybody learns of a folded stretch was published in it, and to publish unfolds"
NOBODY = "nothing was published in memory that nobody has accessed"
FOLD = "what is folded of one block, or of blocks that lack lanes, machine code does not use, or it is the same"

#: Place of the function to its faults, and the reason for each.
SURVIVORS: dict[str, dict[str, str]] = {
    "order.order:Order.__init__": {
        "not self.enabled is False": OFF,
        "clustered is True": PLANE,
        "clustered or self.synchronises is True": PLANE,
        "proxies is True": PLANE,
        "sequential is True": PLANE,
    },
    "order.order:Order.access": {
        "kind.strong and places is True": QUICK,
        "without not lanes.size in not self.enabled or not lanes.size": QUICK,
        "without kind.strong in kind.strong and places": QUICK,
        "without places in kind.strong and places": QUICK,
    },
    "order.order:Order.async_access": {
        "without not lanes.size in not self.enabled or not lanes.size": QUICK,
    },
    **{
        f"order.order:Order.{method}": {"without lanes.size in self.enabled and lanes.size": QUICK}
        for method in ("block_arrive", "warp_barrier", "cluster_arrive", "cluster_complete", "cluster_wait", "arrive",
            "acquire_phase", "cp_async_arrive")
    },
    "order.order:Order.block_barrier": {
        "lanes.size is True": QUICK,
    },
    **{
        f"order.order:Order.{method}": {
            "without self.synchronises in self.enabled and self.synchronises": PLANE,
        }
        for method in ("strong_store", "strong_load", "strong_update")
    },
    "order.order:Order.exit": {
        "self._alone is False": PEERS,
    },
    "order.order:_orders_by_memory": {
        ("without step.fence.kind in (FenceKind.THREADS, FenceKind.MBARRIER_INIT) in step.fence is not None and "
         "step.fence.kind in (FenceKind.THREADS, FenceKind.MBARRIER_INIT)"): PLANE,
    },
    "order.checks:Checks.__init__": {
        "launch.memories is None or launch.memories[0].last.shape[1] < warps is True": QUICK,
        "without launch.memories[0].last.shape[1] < warps in launch.memories is None or "
        "launch.memories[0].last.shape[1] < warps": FIRST,
        "launch.memories[0].last.shape[1] <= warps, not launch.memories[0].last.shape[1] < warps": QUICK,
        "without self._units > 1 in self._units > 1 and geometry.threads == geometry.lanes_per_block": FOLD,
        ("without geometry.threads == geometry.lanes_per_block in self._units > 1 and "
         "geometry.threads == geometry.lanes_per_block"): FOLD,
        "self._units >= 1, not self._units > 1": FOLD,
    },
    "order.checks:Checks.forget_shared": {
        "without self._foldable in self._foldable and whole_lines": FOLD,
    },
    "order.checks:Checks.unfold": {
        "touched.state[core.NEXT_RECORD] == 1 is False": QUICK,
        "without self._foldable = False": QUICK,
        "without window is None in not touched.state[core.FOLDED] or window is None": QUICK,
    },
    "order.checks:Checks.access": {
        "flags is None is True": QUICK,
        ("weak and self._pass(memory, shadow, pc, who, places, nbytes, flags, kind.by_warp, _THREADS, _THREADS) is "
         "False"): QUICK,
        "count is True": QUICK,
    },
    "order.checks:Checks._apart": {
        "without kind.writes in kind.strong and kind.writes and (kind.scope < Scope.GPU)": PARTS,
        "without kind.scope < Scope.GPU in kind.strong and kind.writes and (kind.scope < Scope.GPU)": PARTS,
        "kind.scope <= Scope.GPU, not kind.scope < Scope.GPU": PARTS,
    },
    "order.checks:Checks.issue": {
        "engine in _PLAIN_ENGINES and (not flags & core.STRONG) is False": QUICK,
        ("without engine in _PLAIN_ENGINES in engine in _PLAIN_ENGINES and (not flags & core.STRONG)"): QUICK,
        "self._pass(memory, shadow, pc, lanes, offsets, nbytes, flags, single, components, at) is False": QUICK,
        "count >= 0, not count > 0": VIEW,
        "count is True": QUICK,
    },
    "order.checks:Checks.end": {
        "count is True": QUICK,
    },
    "order.checks:Checks._pass": {
        "answer != compiled_warps.NO_ROOM is True": QUICK,
        "flags & core.ASYNC_PROXY is True": ASKED,
    },
    "order.checks:Checks._find": {
        "planes.min() >= 0 is False": QUICK,
        "planes.min() > 0, not planes.min() >= 0": QUICK,
        "count < len(self._found), not count <= len(self._found)": ROOM,
    },
    "order.checks:Checks.forget_ended": {
        "shadow is None is False": NOBODY,
    },
    "order.knowledge:Knowledge.__init__": {
        "last is not None and last.views.shape == size is True": FIRST,
        "last is not None and last.views.shape == size is False": QUICK,
        "again is None or again.has_changed is True": QUICK,
        "without last.views.shape == size in last is not None and last.views.shape == size": FIRST,
        "last.views.shape != size, not last.views.shape == size": FIRST,
    },
    "order.knowledge:Knowledge.has_changed": {
        "self.engines.max() > 0, not self.engines.max() >= 0": NEVER,
    },
    "order.knowledge:Knowledge.forget_minds": {
        "without self.before_change()": TOLD,
    },
    "order.knowledge:Knowledge._join_maps": {
        "not self.views[plane, lanes, core.FOREIGN].any() is False": QUICK,
    },
    "order.knowledge:Knowledge.first_component": {
        "self.engines[engine] <= 0, not self.engines[engine] < 0": NEVER,
        "engine is Engine.WGMMA is False": ROOM,
    },
    "order.knowledge:Knowledge.learn_map": {
        "which is True": QUICK,
    },
    "order.knowledge:Knowledge.meet": {
        "self.clocks.has_maps is True": QUICK,
    },
    "order.objects:Objects.init": {
        "not spare is True": ROOM,
        "without self._clocks.barriers += more": ROOM,
    },
    "order.objects:Objects._published": {
        "not lanes.size is False": QUICK,
    },
    "order.objects:Objects.complete": {
        "without object_.phases.pop(phase - _KEPT_PHASES, None)": ROOM,
    },
    "order.objects:Objects.block_complete": {
        "without here.size in snapshot is not None and here.size": QUICK,
    },
    "order.objects:Objects._shares": {
        "alone >= 0 is True": QUICK,
        "alone > 0, not alone >= 0": NEVER,
    },
    "order.patterns:Patterns.__init__": {
        "plane != self._wide is True": KIND,
        "plane != self._wide is True (2)": KIND,
        "plane > 0, not plane >= 0": NEVER,
    },
    "order.patterns:Patterns._learn_awaited": {
        "without awaited[plane, lanes] = 0": QUICK,
    },
    "order.patterns:Patterns._continue": {
        "place is None and (not self._publishes(np.array([lane]), party.scope, release)) is False": QUICK,
    },
    "order.patterns:Patterns._publishes": {
        "release or (self.fenced and self.fenced[Scope.CTA][:, lanes, core.TICK].any()) is True": QUICK,
        ("without self._sequential >= 0 in self._sequential >= 0 and "
         "bool(self._knowledge.views[self._sequential, lanes, :core.TICK + 1].any())"): QUICK,
        ("without bool(self._knowledge.views[self._sequential, lanes, :core.TICK + 1].any()) in "
         "self._sequential >= 0 and bool(self._knowledge.views[self._sequential, lanes, :core.TICK + 1].any())"): QUICK,
        ("without self.fenced[Scope.CTA][:, lanes, core.TICK].any() in self.fenced and "
         "self.fenced[Scope.CTA][:, lanes, core.TICK].any()"): QUICK,
        "self._sequential > 0, not self._sequential >= 0": NEVER,
        "core.TICK without + 1": QUICK,
    },
    "order.patterns:Patterns._write": {
        "self._sequential > 0, not self._sequential >= 0": NEVER,
    },
    "order.patterns:Patterns._fenced_scopes": {
        "kept[level][0, core.TICK] and (level == scope or differs[level]) is True": QUICK,
        ("without kept[level][0, core.TICK] in kept[level][0, core.TICK] and (level == scope or "
         "differs[level])"): QUICK,
        ("without level == scope or differs[level] in kept[level][0, core.TICK] and (level == scope or "
         "differs[level])"): QUICK,
    },
    "order.patterns:Patterns._read": {
        "each[0] > party.scope is True": QUICK,
        "each[0] >= party.scope, not each[0] > party.scope": QUICK,
        "without self._seen[key] = [each for each in self._seen[key] if each[0] > party.scope]": QUICK,
    },
    "order.patterns:Patterns._take": {
        "place.sequential is True": QUICK,
        "without place.outside.any() in party.scope >= Scope.GPU and place.outside.any()": QUICK,
        "without seen in seen and (not acquire)": QUICK,
    },
    "order.patterns:Patterns.store": {
        "not places and (not self._publishes(lanes, scope, release)) is False": QUICK,
        "release is True": QUICK,
        "place is None and (not self._publishes(np.array([lane]), scope, release)) is False": QUICK,
    },
    "order.patterns:Patterns.load": {
        "not places and (not self._seen) is False": QUICK,
        "without not self._seen in not places and (not self._seen)": QUICK,
    },
    "order.patterns:Patterns.update": {
        "not places and (not self._seen) and (not self._publishes(lanes, scope, release)) is False": QUICK,
        "release is True": QUICK,
        ("without not self._seen in not places and (not self._seen) and (not self._publishes(lanes, scope, "
         "release))"): QUICK,
    },
}  # fmt: skip
