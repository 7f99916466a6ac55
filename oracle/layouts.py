"""The packed layouts of weights and scale factors, by name.

A layout is its digits, slowest first (`pack_layout`). Where the source gives a formula, the digits are that formula
read as a mixed-radix number, and the tests hold them to the formula as written. Example, `panel-64`,
`(n >> 6) · (K · 64) + k · 64 + (n & 63)`, is [n/64][k][n%64].

For scale factors the axes are n = row of the operand (M or N) and k = scale column (K / 16 or K / 32).
"""

from tileproof.oracle.addresses.digit import K, N
from tileproof.oracle.addresses.pack_layout import PackLayout, Use
from tileproof.oracle.evidence import Evidence
from tileproof.oracle.refusal import Refusal

_SKILLS = "HuangPuStar/MetaInfer metainfer/tasks/dcu_kernel_auto_opt/skills"
_FOUNDATIONS = f"{_SKILLS}/int8-w8a8-gemm-foundations/SKILL.md @f3ac90ad"
_PREFILL = f"{_SKILLS}/int8-w8a8-gemm-prefill/SKILL.md @f3ac90ad"
_DECODE = f"{_SKILLS}/int8-w8a8-gemm-decode/SKILL.md @08ddbe41"
_VARIANT = "HuangPuStar/MetaInfer variant/int8w8a8-gemm"
_FUSED = "ViperEkura/AstrAI @75304d08, fused kernel"
_FLASHINFER = "flashinfer-ai/flashinfer quantization utilities, get_sf_out_offset_"

#: Layouts of 8-bit weights.
_WEIGHTS = (
    PackLayout(
        name="contiguous",
        digits=(K, N),
        source=f"{_FOUNDATIONS} section 2",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("default weight", 4096, 2560),),
    ),
    PackLayout(
        name="n-major",
        digits=(N, K),
        source=f"{_PREFILL} sections 3.2, 4.2, 6; {_DECODE}",
        evidence=Evidence.DOCUMENTED,
        uses=(
            Use("TP4 M4096 qkv", 4096, 2560),
            Use("TP4 M4096 down", 384, 4096),
            Use("TP4 M4096 gate_up", 4096, 768),
            Use("TP8 M4096 qkv", 4096, 1280),
            Use("TP8 M4096 o_proj", 1024, 4096),
            Use("TP8 M4096 gate_up", 4096, 384),
            Use("TP8 M4096 down", 192, 4096),
            Use("GLM TP8 M4096 o_proj", 2048, 6144),
            Use("GLM TP8 M4096 shared_gate_up", 6144, 512),
            Use("TP4 M16 gate_up", 4096, 768),
            Use("TP4 M16 down", 384, 4096),
        ),
    ),
    PackLayout(
        name="panel-64",
        digits=(N // 64, K, N % 64),
        source=f"{_FOUNDATIONS} section 2; {_PREFILL} section 6",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("TP4 M4096 o_proj", 2048, 4096),),
    ),
    PackLayout(
        name="panel-64-k16",
        digits=(N // 64, K // 16, N % 64, K % 16),
        source=f"{_PREFILL} section 4.2",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("GLM TP8 M4096 fused_qkv_a", 6144, 2624),),
    ),
    PackLayout(
        name="stage-64-n128-k8",
        digits=(K // 64, N // 128, K // 8 % 8, N % 128, K % 8),
        source=f"{_PREFILL} section 4.2",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("GLM TP8 M4096 kv_b", 512, 3584),),
    ),
    PackLayout(
        # The source says [kc][n][8] a stage of 64 k; that n runs over the whole of N is our reading.
        name="stage-64-k8",
        digits=(K // 64, K // 8 % 8, N, K % 8),
        source=f"{_PREFILL} section 4.2",
        evidence=Evidence.INFERRED,
        uses=(Use("GLM TP8 M4096 q_b", 2048, 2048),),
    ),
    PackLayout(
        name="tile-128x64",
        digits=(N // 128, K // 64, N % 128, K % 64),
        source=f"{_PREFILL} section 4.2",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("GLM TP8 M4096 shared_down", 256, 6144),),
    ),
    PackLayout(
        # One DUMMA fragment after the other: lane = (k % 32 / 8) · 16 + n % 16 holds 8 consecutive k.
        name="fragment",
        digits=(N // 16, K // 32, K // 8 % 4, N % 16, K % 8),
        source=f"{_DECODE} section 1.1; {_VARIANT}/glm52/TP8/M16/q_b_proj",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("GLM TP8 M16 q_b", 2048, 2048), Use("TP4 M16 o_proj", 2048, 4096)),
    ),
    PackLayout(
        # Groups of 8 k-steps; a lane's 16 bytes are its fragments of two neighbouring n tiles.
        name="fragment-pairs",
        digits=(K // 256, N // 32, K // 32 % 8, K // 8 % 4, N % 16, N // 16 % 2, K % 8),
        source=f"{_VARIANT}/hy3/TP4/M16/o_proj",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("TP4 M16 o_proj, tile pairs", 2048, 4096),),
    ),
    PackLayout(
        name="core-matrix-a",
        digits=(N // 16, K // 16, N // 8 % 2, N % 8, K % 16),
        source=f"{_FUSED}, operand A (n is the row)",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("AstrAI fused A tile", 32, 128),),
    ),
    PackLayout(
        name="core-matrix-b",
        digits=(N // 8, K // 16, N % 8, K % 16),
        source=f"{_FUSED}, operand B",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("AstrAI fused B tile", 32, 128),),
    ),
    PackLayout(
        name="marlin-8bit",
        digits=(K // 16, N // 64, N % 8, K // 2 % 4, N // 16 % 4, N // 8 % 2, K % 2, K // 8 % 2),
        source="vllm-project/vllm marlin_utils_test.py, get_weight_perm(8)",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("Marlin weight", 4096, 4096),),
    ),
)

#: Layouts of 4-bit weights; an offset counts codes.
_NIBBLES = (
    PackLayout(
        name="nibble-k",
        digits=(N, K // 2, K % 2),
        source="PTX ISA 9.1, e2m1x2: two neighbouring k in a byte, the first in the low nibble",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("row-major FP4 weight", 4096, 4096),),
        element_bits=4,
    ),
    PackLayout(
        name="gptq-4bit",
        digits=(K // 8, N, K % 8),
        source="AutoGPTQ qweight: 32-bit words along k, k in the order of the nibbles",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("GPTQ weight", 4096, 4096),),
        element_bits=4,
    ),
    PackLayout(
        # Nibbles of a word hold columns 0, 2, 4, 6, 1, 3, 5, 7.
        name="awq-4bit",
        digits=(K, N // 8, N % 2, N // 2 % 4),
        source="casper-hansen/AutoAWQ qweight: 32-bit words along n, order_map",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("AWQ weight", 4096, 4096),),
        element_bits=4,
    ),
    PackLayout(
        name="marlin-4bit",
        digits=(K // 16, N // 64, N % 8, K // 2 % 4, N // 16 % 4, K % 2, N // 8 % 2, K // 8 % 2),
        source="IST-DASLab/marlin marlin/__init__.py, _get_perms",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("Marlin weight", 4096, 4096),),
        element_bits=4,
    ),
)

#: Interleaves of block scale factors; ragged shapes are padded.
_SCALES = (
    PackLayout(
        name="scale-128x4",
        digits=(N // 128, K // 4, N % 32, N // 32 % 4, K % 4),
        source=f"cuBLAS 13 documentation, 1D block scaling factors layout; {_FLASHINFER}128x4",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("MXFP8 scales, M 4096, K 4096", 128, 4096), Use("NVFP4 scales, M 4000, K 752", 47, 4000)),
        pads=True,
    ),
    PackLayout(
        name="scale-8x4",
        digits=(N // 8, K // 4, N % 8, K % 4),
        source=f"{_FLASHINFER}8x4",
        evidence=Evidence.DOCUMENTED,
        uses=(Use("NVFP4 scales, M 8, K 4096", 256, 8),),
        pads=True,
    ),
)

#: Every layout by name.
PACKS: dict[str, PackLayout] = {layout.name: layout for layout in _WEIGHTS + _NIBBLES + _SCALES}


def find_layout(name: str) -> PackLayout:
    """The layout of that name.

    Raises:
        Refusal: no such layout; the hint lists them.
    """
    if name not in PACKS:
        raise Refusal(f"there is no layout {name!r}", hint=f"layouts: {', '.join(PACKS)}")
    return PACKS[name]
