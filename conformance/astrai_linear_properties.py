"""What the contracts of AstrAI's linear layer say of each property of the catalogue."""

from tileproof.conformance.astrai_linear_setting import BACKWARD, KERNEL, WITHOUT_GRADIENTS
from tileproof.conformance.properties import checks as by
from tileproof.conformance.properties.declaration import Absent, Declarations, applies, declare

_CAST = "the layer casts by the tensor quantiser, whose own contract, astrai_quantize, has it"
_STATE = "tests/kernels/test_fp8_linear_state.py"
_GRAPH = "tests/kernels/test_fp8_linear_graph.py"
_OFFSETS = "the layer computes no offset: its quantiser's and its product's are held to it by their own contracts"
_SKIPS = ("unchanged-weight", "checkpointed", "shared-activation", "reset", "restored")


def properties(contract: str) -> Declarations:
    """Of programs of passes: casts, rings, products, and the bias's gradient where there are gradients."""
    ident = f"{contract}/{KERNEL}/training/P0.S1.B0.M3.N4.K5.W2.e4m3e5m2b16"
    far = f"{contract}/{KERNEL}/training/P0.S1.B0.M17.N268435487.K1.W1.e4m3e5m2b16/ordinary/0"
    skips = _SKIPS if contract == BACKWARD else (*_SKIPS, WITHOUT_GRADIENTS)
    return declare(
        P1=Absent(_CAST),
        P2=applies(by.families("ordinary", "outlier", "falling")),
        P3=applies(by.families("specials", "rising")),
        P4=applies(by.families("zeros", "specials", "nan-first")),
        P5=applies(by.families("rising", "falling", "ordinary")),
        P6=applies(
            by.families("rising", "falling", "nan-first"),
            by.programs(*skips),
            by.state("rings"),
            by.tested(f"{_STATE}::test_a_reset_forgets_rings_and_checkpoint_and_restores_the_first_recipe"),
        ),
        P7=applies(by.families("rising", "falling")),
        P8=applies(by.families("ordinary", "outlier")),
        P9=Absent("padded tensors are refused, so nothing lies between the elements"),
        P10=applies(by.poison()),
        P11=applies(by.views()),
        P12=applies(by.zero_and_one("M", "N", "K", "W")),
        P13=applies(by.residues(M=16, N=16, K=16)),
        P14=applies(by.probe("far column sums", far)) if contract == BACKWARD else Absent(_OFFSETS),
        P15=applies(by.equal_bits(), by.probe("repeats", f"{ident}/ordinary/0")),
        P16=applies(by.state("rings")),
        P17=applies(by.order()),
        P18=applies(
            by.tested(f"{_GRAPH}::test_replayed_steps_have_the_oracles_bits_and_rings_through_three_cycles"),
        ),
        P19=applies(by.route(), by.refusals()),
        P20=applies(by.tokens("b16")),
        P21=Absent("codes are FP8 and sums are floating-point numbers"),
        P22=Absent("scales follow from whole tensors, so a row depends on the others of its batch by definition"),
        P23=applies(by.families("cancellation", "outlier", "ordinary")),
        P24=applies(by.probe("wrong oracles", f"{ident}/ordinary/0")),
    )
