"""From a parsed entry to its decoded form: slots for operands, one step for each instruction.

What an instruction means is looked up, by its mnemonic or by its first two words, in the tables of the `decode_*`
modules; everything that is arithmetic goes through `operation.resolve`. An instruction, qualifier or operand form
outside both is `NotModelled` with its PTX line and CUDA line.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.alu.floating import three_way
from tileproof.simulators.ptx.alu.operation import NotModelled, Opcode, Operation, resolve
from tileproof.simulators.ptx.decoding import (
    decode_async,
    decode_atomic,
    decode_cache,
    decode_cluster,
    decode_control,
    decode_fence,
    decode_matrix,
    decode_memory,
    decode_special,
    decode_tensor_map,
    decode_warp,
    decode_wgmma,
    instruction_set,
    refused,
)
from tileproof.simulators.ptx.decoding.contraction import Contraction, contract, pairs
from tileproof.simulators.ptx.decoding.fresh import prune
from tileproof.simulators.ptx.decoding.inlining import expand
from tileproof.simulators.ptx.decoding.instruction_text import not_modelled, pointing_at, where
from tileproof.simulators.ptx.decoding.slots import Slots
from tileproof.simulators.ptx.decoding.variables import Variables
from tileproof.simulators.ptx.findings import Where
from tileproof.simulators.ptx.limits import FIRST_WITH_CLUSTERS, Limits
from tileproof.simulators.ptx.program import ClusterRule, Kind, Program, Step
from tileproof.simulators.ptx.text.syntax import Entry, Instruction, Module

DECODERS: Mapping[str, Callable[[Slots, Instruction], Step]] = {
    **refused.DECODERS,
    **decode_memory.DECODERS,
    **decode_atomic.DECODERS,
    **decode_cache.DECODERS,
    **decode_fence.DECODERS,
    **decode_warp.DECODERS,
    **decode_control.DECODERS,
    **decode_cluster.DECODERS,
    **decode_special.DECODERS,
    **decode_matrix.DECODERS,
    **decode_wgmma.DECODERS,
    **decode_async.DECODERS,
    **decode_tensor_map.DECODERS,
}


def decode_entry(module: Module, entry: Entry, contraction: Contraction = Contraction.NONE) -> Program:
    """Decode one kernel of a module.

    Args:
        module: the module.
        entry: the kernel.
        contraction: what becomes of multiplications and additions that the assembler may fuse.

    Raises:
        NotModelled: an instruction or a declaration that the device does not model.
        Refusal: an instruction that the module's target does not have.
    """
    target = Limits.of(module.target[0])
    entry = expand(module, entry)
    contractible = tuple(where(entry.instructions[index]) for index in pairs(entry))
    entry = contract(entry, contraction)
    variables = Variables.of(module, entry)
    slots = Slots(entry, variables, module.target[0])
    steps = prune([_step(slots, instruction) for instruction in entry.instructions])
    for instruction in entry.instructions:
        instruction_set.check(instruction, target.arch)
    limit = entry.directives.get("reqntid") or entry.directives.get("maxntid")
    return Program(
        name=entry.name,
        steps=(*steps, Step(Kind.EXIT, "(end of the kernel)", _end_of(entry))),
        slot_bits=tuple(slots.bits),
        constants=slots.constants,
        specials=slots.specials,
        parameters=entry.parameters,
        parameter_offsets=tuple(variables.parameters.offsets[p.name] for p in entry.parameters),
        parameter_bytes=variables.parameters.size_bytes,
        shared=variables.shared,
        shared_symbols=slots.shared_symbols,
        local_bytes=variables.local_bytes,
        constant_image=variables.constant_image,
        globals_used=slots.globals_used,
        thread_limit=(limit[0], limit[1], limit[2]) if limit else None,
        thread_exact="reqntid" in entry.directives,
        cluster=_cluster_rule(entry, target),
        register_limit=entry.directives.get("maxnreg", (None,))[0],
        registers=slots.names,
        contractible=contractible,
    )


def _cluster_rule(entry: Entry, target: Limits) -> ClusterRule:
    given = entry.directives
    if target.number < FIRST_WITH_CLUSTERS and (about := [name for name in given if "cluster" in name]):
        raise Refusal(
            f"kernel {entry.name}: .{about[0]} needs sm_{FIRST_WITH_CLUSTERS} or later, the module is for {target.arch}"
        )
    if "blocksareclusters" in given:
        raise NotModelled(
            f"kernel {entry.name}: .blocksareclusters, which makes the grid count clusters, is not modelled",
            hint="give the grid in blocks",
        )
    required = given.get("reqnctapercluster")
    return ClusterRule(
        (required[0], required[1], required[2]) if required else None,
        "explicitcluster" in given,
        given.get("maxclusterrank", (None,))[0],
    )


def _step(slots: Slots, instruction: Instruction) -> Step:
    try:
        step = _body(slots, instruction)
    except (IndexError, KeyError, ValueError) as error:
        # A decoder takes an instruction apart as its form has it; text that no assembler takes has fewer operands, or
        # a word where a type belongs.
        raise not_modelled(instruction, "its operands or qualifiers do not have the form of the instruction") from error
    guard = instruction.guard
    if guard is None:
        return step
    return replace(step, guard=slots.register(guard.register.name), guard_negated=guard.negated)


def _body(slots: Slots, instruction: Instruction) -> Step:
    first_words = ".".join((instruction.mnemonic, *instruction.qualifiers[:1]))
    decoder = DECODERS.get(first_words) or DECODERS.get(instruction.mnemonic)
    if decoder is not None:
        return decoder(slots, instruction)
    operation = _operation(instruction)
    if operation is None:
        raise not_modelled(instruction, "this instruction is not modelled")
    return slots.arithmetic(instruction, operation, instruction.operands)


def _operation(instruction: Instruction) -> Operation | None:
    """min and max of floats take two or three operands; their opcode does not say."""
    with pointing_at(instruction):
        if instruction.mnemonic in ("min", "max") and len(instruction.operands) == 4:
            return three_way(Opcode.parse(instruction.mnemonic, instruction.qualifiers))
        return resolve(instruction.mnemonic, instruction.qualifiers)


def _end_of(entry: Entry) -> Where:
    return where(entry.instructions[-1]) if entry.instructions else Where(entry.line)
