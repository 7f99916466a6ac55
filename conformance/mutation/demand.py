"""Which bits of a register anything reads, and which bits a change of sign can alter.

Example: `shr.s32 %r2, %r1, 16` for `shr.u32` alters the upper 16 bits of %r2; where %r2 is only converted by
`cvt.u16.u32`, which reads the lower 16, the two are the same.
"""

from tileproof.simulators.ptx.program import Kind, Program, Step

_ALL = (1 << 64) - 1


def bits_read(program: Program, slot: int) -> int:
    """A mask of the bits of a slot that some step may read; all of them where that is not known."""
    mask = 0
    for step in program.steps:
        if step.guard == slot or _carries(step, slot):
            return _ALL
        for at, source in enumerate(step.sources):
            if source == slot:
                mask |= _of_operand(program, step, at)
    return mask


def _carries(step: Step, slot: int) -> bool:
    """Whether a step may read the slot through a form of its own, beside its sources."""
    forms = (step.asynchronous, step.product, step.barrier)
    return any(form is not None and str(slot) in repr(form) for form in forms)


def _of_operand(program: Program, step: Step, at: int) -> int:
    narrow = step.narrow[at] if step.narrow else 0
    width = _low(narrow) if narrow else _ALL
    if step.kind is Kind.STORE and at > 0 and step.access is not None:
        return width & _low(8 * step.access.size)
    if step.kind is not Kind.ARITHMETIC or step.operation is None:
        return width
    words = step.operation.name.split(".")
    other = program.constants.get(step.sources[1 - at]) if len(step.sources) == 2 else None
    if words[0] == "and" and other is not None:
        return width & other
    if words[0] == "shl" and at == 0 and other is not None:
        return width & _low(max(0, _bits(words[-1]) - other))
    if words[0] == "shr" and at == 0 and other is not None:
        return width & _ALL & ~_low(other)
    if words[0] == "cvt" and len(words) == 3 and all(_is_integer(word) for word in words[1:]):
        return width & _low(min(_bits(words[1]), _bits(words[2])) if _bits(words[1]) <= _bits(words[2]) else 64)
    return width


def bits_altered(new: Step, old: Step, program: Program) -> int:
    """A mask of the result's bits that differ at most where only the sign of a type does; all for other changes."""
    if new.kind is Kind.LOAD and old.kind is Kind.LOAD and new.access == old.access and new.access is not None:
        return _ALL & ~_low(8 * new.access.size)
    if new.operation is None or old.operation is None:
        return _ALL
    words, others = new.operation.name.split("."), old.operation.name.split(".")
    if [_unsigned(word) for word in words] != [_unsigned(word) for word in others]:
        return _ALL
    if words[0] == "shr":
        by = program.constants.get(old.sources[1])
        return _ALL if by is None else _ALL & ~_low(max(0, _bits(words[-1]) - by))
    if words[0] == "mul" and "wide" in words:
        return _ALL & ~_low(_bits(words[-1]))
    if words[0] == "cvt" and len(words) == 3:
        return _ALL & ~_low(min(_bits(words[1]), _bits(words[2])))
    return _ALL


def _low(bits: int) -> int:
    return (1 << bits) - 1


def _is_integer(word: str) -> bool:
    return word[0] in "sub" and word[1:].isdigit()


def _bits(kind: str) -> int:
    return int("".join(letter for letter in kind if letter.isdigit()) or 64)


def _unsigned(word: str) -> str:
    return f"u{word[1:]}" if word[0] == "s" and word[1:].isdigit() else word
