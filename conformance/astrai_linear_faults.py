"""The faults of the linear layer: edits of what its host files keep and compose, and of its small kernels."""

from tileproof.conformance.astrai_linear_setting import BACKWARD, FORWARD
from tileproof.conformance.fault import MISMATCH, Edit, Fault
from tileproof.conformance.finding import FindingKind

_RACE = frozenset({FindingKind.RACE})
_REFUSAL = frozenset({FindingKind.REFUSAL})
_UNSETTLED = frozenset({FindingKind.MISMATCH, FindingKind.UNINITIALISED})

LAYER, STATE = "fp8_linear.py", "fp8_linear_state.py"
QUANTISER, PRODUCT = "fp8_quantize_tensor.py", "mm_fp8_arguments.py"
BIAS, SEED, SCALES = "fp8_bias_gradient", "fp8_ring_seed", "fp8_scale_products"


def _fault(
    file: str,
    contract: str,
    name: str,
    what: str,
    precedent: str,
    expected: frozenset[FindingKind],
    *edits: Edit,
    possible: frozenset[FindingKind] = frozenset(),
) -> Fault:
    return Fault(f"linear-{name}", contract, what, precedent, expected, possible, file, edits)


_FOLDS = (
    _fault(
        LAYER,
        FORWARD,
        "folds-without-gradients",
        "folds and advances in passes that record no gradients, so that inference uses the window up",
        "AstrAI A-life A2 (idx advanced on every call)",
        MISMATCH,
        Edit("            scale=None if gradients else ring.multiplier,\n", ""),
        Edit("            ring=ring if gradients else None,\n", "            ring=ring,\n"),
        Edit("        if gradients:\n            state.advance", "        if True:\n            state.advance"),
    ),
    _fault(
        LAYER,
        FORWARD,
        "advances-without-a-fold",
        "counts index and pair on in passes that fold nothing: the next one reads a pair that nobody published",
        "AstrAI A-life A2 (idx advanced on every call)",
        MISMATCH,
        Edit("        if gradients:\n            state.advance", "        if True:\n            state.advance"),
    ),
    _fault(
        LAYER,
        BACKWARD,
        "folds-without-advancing",
        "forgets the host's part after a fold: the same slot again, and the pair of before",
        "AstrAI fp8_ring.h @ddfa813d (advance once a fold)",
        MISMATCH,
        Edit("            state.advance(role)\n", ""),
    ),
    _fault(
        LAYER,
        FORWARD,
        "unchanged-weight-folds-again",
        "casts and folds a weight in each pass, so that its window counts calls and not updates",
        "AstrAI fp8_state.h @17ac3709 (the ring tracks optimiser steps instead of calls)",
        MISMATCH,
        Edit("kept = state.cast_of(weight)", "kept = None"),
    ),
    _fault(
        STATE,
        FORWARD,
        "changed-weight-keeps-its-codes",
        "takes the kept cast of a weight for valid after an update",
        "sglang 28418 (stored code and stored scale disagree); AstrAI fp8_state.h (version counter)",
        MISMATCH,
        Edit("self.kept is not None and self.kept[0] == weight.version", "self.kept is not None"),
    ),
    _fault(
        LAYER,
        FORWARD,
        "weight-folds-into-the-gradients-ring",
        "hands the cast of the weight the ring of the gradient, whose window then holds weights",
        "AstrAI 69f35c46 (the transposing cast of w and x polluted g's amax)",
        MISMATCH,
        Edit("scale=None if gradients else", "scale=None if gradients and role is not Role.WEIGHT else"),
        Edit(
            "            ring=ring if gradients else None,\n",
            "            ring=(state.rings[Role.GRADIENT] if role is Role.WEIGHT else ring) if gradients else None,\n",
        ),
    ),
    _fault(
        QUANTISER,
        "astrai_quantize",
        "empty-tensor-launches-nothing",
        "has no block for an empty tensor, so that its ring is never published",
        "AstrAI A-qN (empty tensors launched no block)",
        MISMATCH | {FindingKind.ROUTE},
        Edit("min(max(1, -(-extent // step)), most)", "min(-(-extent // step), most)"),
        Edit("max_blocks // across)", "max_blocks // max(across, 1))"),
    ),
)

_SCALE = (
    _fault(
        LAYER,
        FORWARD,
        "scale-of-the-next-step",
        "gives a product the scale that this step's fold has just published",
        "AstrAI 962c10c5 (published scale leaked into the same step)",
        MISMATCH,
        Edit("return Cast(rows, transposed, ring.scale)", "return Cast(rows, transposed, state.rings[role].scale)"),
    ),
    _fault(
        LAYER,
        BACKWARD,
        "scales-kept-as-views",
        "keeps views of the ring's pair for the backward pass, which later folds write again",
        "AstrAI fp8_linear.cu @2fb0b143 (a ring view that dies at that ring's next fold)",
        MISMATCH,
        Edit("return replace(x, scale=of_x), replace(w, scale=of_w), of_both", "return x, w, of_both"),
    ),
    _fault(
        LAYER,
        BACKWARD,
        "gradients-scales-swapped",
        "scales dX by the scale of x, and dW by that of w",
        "aiter 3288 (scale of another operand)",
        MISMATCH,
        Edit("Scalar(of_input, own.scale, saved.w.scale)", "Scalar(of_input, own.scale, saved.x.scale)"),
        Edit("Scalar(of_weight, own.scale, saved.x.scale)", "Scalar(of_weight, own.scale, saved.w.scale)"),
    ),
    _fault(
        LAYER,
        BACKWARD,
        "recast-in-the-forward-format",
        "keeps the transposed codes of x and w in the forward format, and multiplies them as the backward one",
        "AstrAI fp8.py (hybrid: e4m3 forward, e5m2 backward)",
        MISMATCH,
        Edit("Output(transposed, formats.backward)", "Output(transposed, forward)"),
    ),
    _fault(
        LAYER,
        BACKWARD,
        "gradients-ring-of-the-forward-format",
        "casts a gradient to the forward format, and multiplies its codes as the backward one",
        "AstrAI fp8.py (gradients are e5m2)",
        MISMATCH,
        Edit("formats.backward if role is Role.GRADIENT else formats.forward", "formats.forward"),
    ),
    _fault(
        STATE,
        BACKWARD,
        "gradients-scale-by-448",
        "has the gradient's ring scale for e4m3, so that a factor of 128 of its range stays empty",
        "AstrAI fp8_ring.h @ddfa813d (a ring divides by its own format's largest value)",
        MISMATCH,
        Edit("recipe.formats.backward if role is Role.GRADIENT else recipe.formats.forward", "recipe.formats.forward"),
    ),
    _fault(
        SCALES,
        FORWARD,
        "scales-added",
        "adds the scales of two operands instead of multiplying them",
        "AstrAI ops.cu @057c0d33 (one scale, the product made by the caller)",
        MISMATCH,
        Edit("__fmul_rn(first, *scalars.second[i])", "__fadd_rn(first, *scalars.second[i])"),
    ),
)

_KEYS = (
    _fault(
        STATE,
        FORWARD,
        "rings-keyed-by-address",
        "finds rings by the weight's address, so that the next weight there inherits a dead one's",
        "AstrAI fp8_state.h @17ac3709 (recycled pointer inherits a foreign ring)",
        MISMATCH,
        Edit("self._entries.get(id(weight))", "self._entries.get(weight.tensor.buffer.address)"),
        Edit("entry.weight() is weight and entry", "entry"),
        Edit("            del self._entries[id(weight)]\n", ""),
        Edit("entry = self._entries[id(weight)]", "entry = self._entries[weight.tensor.buffer.address]"),
    ),
    _fault(
        STATE,
        FORWARD,
        "recipe-change-keeps-the-rings",
        "uses the rings of another recipe, with their old margin",
        "AstrAI A-life A3 (stale geometry and margin)",
        MISMATCH,
        Edit(" and entry.state.recipe == self.recipe:", ":"),
    ),
    _fault(
        STATE,
        FORWARD,
        "reset-keeps-the-recipe",
        "forgets rings in a reset, but not the recipe that was set since",
        "AstrAI A-seed (fp8_state.reset() did not restore recipe and format)",
        MISMATCH,
        Edit("        self.recipe = self._initial\n", ""),
    ),
    _fault(
        STATE,
        FORWARD,
        "reset-keeps-the-rings",
        "leaves the rings of living weights in a reset",
        "AstrAI A-life (registry reset before and after each test)",
        MISMATCH,
        Edit("        self._entries.clear()\n        self._pending.clear()", "        self._pending.clear()"),
        Edit("self.recipe = self._initial\n\n", "self._initial = self.recipe\n\n"),
    ),
    _fault(
        STATE,
        FORWARD,
        "checkpoint-with-orphans",
        "stores the state of a dead weight, which shifts those behind it",
        "AstrAI fp8_state.h @17ac3709 (snapshot FIFO shifted by orphans)",
        MISMATCH,
        Edit("if entry.weight() is not None}", "if entry}"),
    ),
    _fault(
        STATE,
        FORWARD,
        "checkpoint-without-its-index",
        "restores the words of a ring, but not where the window goes on",
        "AstrAI A-life (a snapshot stores state, idx, cur, initialised)",
        MISMATCH,
        Edit("index=saved.index, current=saved.current)", "index=0, current=saved.current)"),
    ),
    _fault(
        STATE,
        FORWARD,
        "checkpoint-without-its-pair",
        "restores a ring as if its first pair were the current one",
        "AstrAI A-life (a snapshot stores state, idx, cur, initialised)",
        MISMATCH,
        Edit("index=saved.index, current=saved.current)", "index=saved.index, current=0)"),
    ),
)

_SHAPES = (
    _fault(
        LAYER,
        BACKWARD,
        "backward-does-not-flatten",
        "hands a gradient of three dimensions to a cast that takes two",
        "AstrAI A-seed (_LinearFp8 backward crashed on 3-D inputs)",
        _REFUSAL,
        Edit('state, rows = saved.state, flattened("g", g)', "state, rows = saved.state, g"),
    ),
    _fault(
        PRODUCT,
        FORWARD,
        "both-operands-of-one-description",
        "describes B to the product by the description of A",
        "AstrAI tma.cuh (a pointer into the map cache: both operands used one map)",
        MISMATCH,
        Edit("        _source(product.b),\n", "        _source(product.a),\n"),
        possible=frozenset({FindingKind.OUT_OF_BOUNDS, FindingKind.UNINITIALISED}),
    ),
    _fault(
        PRODUCT,
        FORWARD,
        "optional-pointers-not-cleared",
        "leaves what is not given in the structure as it was in memory: a bias is read from nowhere",
        "AstrAI A-seed (partially packed structs carried garbage non-null pointers)",
        frozenset({FindingKind.OUT_OF_BOUNDS}),
        Edit("return 0 if tensor is None else", "return 64 if tensor is None else"),
        possible=_UNSETTLED,
    ),
    _fault(
        LAYER,
        BACKWARD,
        "operands-of-dw-the-other-way-round",
        "multiplies x transposed by g, whose product is dW transposed",
        "aiter 4506 (a view in place of a transpose)",
        _REFUSAL,
        Edit(
            "record, own.transposed, saved.x.transposed, of_weight, weight)",
            "record, saved.x.transposed, own.transposed, of_weight, weight)",
        ),
        possible=MISMATCH,
    ),
)

_SUM = "        for (Index row = strand; row < rows; row += kStrands) {\n"

_BIAS = (
    _fault(
        BIAS,
        BACKWARD,
        "bias-summed-in-another-order",
        "gives a strand neighbouring rows instead of every sixteenth",
        "ninfer 87a72b9e (association of split-K)",
        MISMATCH,
        Edit(
            _SUM,
            "        const Index share = (rows + kStrands - 1) / kStrands;\n"
            "        for (Index row = strand * share; row < min(rows, (strand + 1) * share); ++row) {\n",
        ),
    ),
    _fault(
        BIAS,
        BACKWARD,
        "bias-strands-backwards",
        "adds the strands from the last to the first",
        "ninfer 87a72b9e (association of split-K)",
        MISMATCH,
        Edit("sum = __fadd_rn(sum, strands[i][lane]);", "sum = __fadd_rn(sum, strands[kStrands - i][lane]);"),
    ),
    _fault(
        BIAS,
        BACKWARD,
        "bias-no-barrier",
        "adds strands that other warps are still summing",
        "AstrAI 7580d80d (missing sync)",
        _RACE,
        Edit("    __syncthreads();\n    if (strand != 0", "    if (strand != 0"),
        possible=_UNSETTLED,
    ),
    _fault(
        BIAS,
        BACKWARD,
        "bias-column-past-the-end",
        "sums and writes columns that do not exist",
        "systems.md 6.4 (30, 33: tails read past the end)",
        frozenset({FindingKind.OUT_OF_BOUNDS}),
        Edit("    if (column < columns) {\n", "    if (true) {\n"),
        Edit("if (strand != 0 || column >= columns) return;", "if (strand != 0) return;"),
        possible=MISMATCH | _RACE,
    ),
    _fault(
        LAYER,
        BACKWARD,
        "bias-of-what-is-not-there",
        "leaves the gradient of the bias to whatever the memory held",
        "AstrAI 057c0d33 (zeros replaced by empty)",
        frozenset({FindingKind.UNWRITTEN}),
        Edit("running.launches.append(self._bias_gradient(rows, bias))", "pass"),
    ),
)

_SEED = (
    _fault(
        SEED,
        FORWARD,
        "seed-divides",
        "divides by the format's largest value where the host's library multiplies by the rounded inverse",
        "AstrAI A-py (divide against reciprocal: one unit in the last place)",
        MISMATCH,
        Edit("__fmul_rn(amax, __frcp_rn(seed.largest))", "__fdiv_rn(amax, seed.largest)"),
    ),
    _fault(
        SEED,
        FORWARD,
        "seed-drops-nan",
        "takes a NaN for no value, as a fold does",
        "pytorch amax keeps NaN; AstrAI fp8_state.h (amax_of)",
        MISMATCH,
        Edit("bits > kInfinity ? kNan : bits", "bits > kInfinity ? 0u : bits"),
    ),
    _fault(
        SEED,
        FORWARD,
        "seed-of-one-slot",
        "fills the first slot of the history alone",
        "AstrAI fp8_ring.h @ddfa813d (all slots)",
        MISMATCH,
        Edit("slot < seed.window; slot += kLanes", "slot < 1; slot += kLanes"),
    ),
)

FAULTS = (*_FOLDS, *_SCALE, *_KEYS, *_SHAPES, *_BIAS, *_SEED)
