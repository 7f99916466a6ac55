"""Legal PTX that stays outside the model, with the reason: what every refusal by name says."""

from collections.abc import Callable, Mapping

from tileproof.simulators.ptx.decoding.instruction_text import not_modelled
from tileproof.simulators.ptx.decoding.slots import Slots
from tileproof.simulators.ptx.program import Step
from tileproof.simulators.ptx.text.syntax import Instruction

_TEXTURES = "textures and surfaces are not modelled"
_STACK = "memory on the stack of run-time size (alloca) is not modelled"
REASONS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq"), (_TEXTURES, "load from global memory")
    ),
    **dict.fromkeys(("alloca", "stacksave", "stackrestore"), (_STACK, "use an array of fixed size")),
    "multimem": ("multicast memory across devices is not modelled", "this device stands alone"),
    "wmma": ("wmma is not modelled", "use mma with its documented fragments"),
    "tcgen05": ("tensor memory and tcgen05 are not modelled", ""),
    "clusterlaunchcontrol": ("work stealing by cluster launch control is not modelled", ""),
}


def _refusal(mnemonic: str) -> Callable[[Slots, Instruction], Step]:
    reason, hint = REASONS[mnemonic]

    def refuse(slots: Slots, instruction: Instruction) -> Step:
        raise not_modelled(instruction, reason, hint)

    return refuse


DECODERS = {mnemonic: _refusal(mnemonic) for mnemonic in REASONS}
