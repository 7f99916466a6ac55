"""A listing: the instructions of each kernel with its labels, and the metadata beside them.

Two forms are read: what the compiler writes (`clang -S`: comments behind `;`, labels `.LBB0_1:`, the metadata between
`---` and `...`), and what the disassembler writes (`llvm-objdump -d`: `0000000000001900 <name>:`, comments behind `//`
with the address and, of a branch, its target `<name+0x90>`). To LLVM's assembler `;` begins a comment: whatever follows
it on the line is not executed, and not read here.

A text of another kind, too long, with control characters or not whole is refused with its line.
"""

import re
from dataclasses import dataclass, field

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.gfx928.isa.instruction import Instruction, parse_instruction, shown

#: Beyond these a text is refused unread.
TEXT_LIMIT, LINE_LIMIT = 16 << 20, 4096

_LABEL = re.compile(r"([A-Za-z_.$][\w.$]*):\Z")
#: Labels of blocks; any other is a symbol.
_LOCAL = re.compile(r"\.|BB\d+_\d+\Z")
_SYMBOL = re.compile(r"[0-9A-Fa-f]{8,16} <([^<>]{1,2000})>:\Z")
_ADDRESS = re.compile(r"\s*([0-9A-Fa-f]{8,16}):")
_TARGET = re.compile(r"<([^<>+]{1,2000})(?:\+0x([0-9A-Fa-f]{1,8}))?>\s*\Z")
#: A carriage return alone ends a line for LLVM's assembler, and a comment with it.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n|\Z)")
_COMMENT = re.compile(r";|//")
#: Directives that a compiler puts between instructions, or behind a kernel; none of them is an instruction.
_BESIDE_CODE = re.compile(
    r"\.(loc|file|cfi_\w+|p2align|balign|text|section|data|bss|rodata|size|type|globl|weak|hidden|protected|local|set"
    r"|ident|addrsig\w*|amdgcn_target|amdhsa_\w+|end_amdhsa_kernel|amdgpu_\w+|end_amdgpu_metadata)\Z"
)
#: Directives after which the text is not what is assembled.
_STEERING = re.compile(r"\.(macro|endm|endmacro|purgem|rept?|endr|irpc?|if\w*|else\w*|endif|include|altmacro|end)\Z")


@dataclass
class Function:
    """Instructions under a symbol."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)
    #: Where a label points: a number of `instructions`.
    labels: dict[str, int] = field(default_factory=dict)
    #: Numbers of instructions by their address from the symbol on, as a disassembler gives it.
    offsets: dict[int, int] = field(default_factory=dict)
    start: int | None = None

    def target(self, branch: Instruction) -> int | None:
        """The instruction that a branch goes to; None where it leaves the function.

        Raises:
            Refusal: a branch in numbers without the disassembler's comment.
        """
        label = branch.operands[0] if branch.operands else ""
        if not label.lstrip("-").isdecimal():
            return self.labels.get(label)
        found = _TARGET.search(branch.comment)  # of another function too: <other+0x90>
        if not found:
            raise Refusal(f"{branch} goes to no label", hint="keep the comments of llvm-objdump -d")
        return self.offsets.get(int(found[2] or "0", 16)) if found[1] == self.name else None


@dataclass
class Listing:
    """What a text holds."""

    functions: dict[str, Function] = field(default_factory=dict)
    #: Lines of metadata with their numbers, unread.
    metadata: list[tuple[int, str]] = field(default_factory=list)
    #: Directives `.amdhsa_*` by kernel.
    directives: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Values of `.amdgcn_target` with their lines.
    targets: list[tuple[int, str]] = field(default_factory=list)


def parse_listing(text: str) -> Listing:
    """Reads a listing.

    Raises:
        Refusal: a limit, a control character, a line that is neither, a directive between instructions that may stand
            for some or leave some out, or a block that does not end.
    """
    if len(text) > TEXT_LIMIT:
        raise Refusal(f"a text of {len(text)} characters", hint=f"at most {TEXT_LIMIT} are read")
    if control := _CONTROL.search(text):
        line = text.count("\n", 0, control.start()) + 1
        raise Refusal(f"line {line}: control character {ord(control[0]):#04x}", hint="give the listing as plain text")
    reader = _Reader()
    for number, content in enumerate(text.split("\n"), 1):
        if len(content) > LINE_LIMIT:
            raise Refusal(f"line {number} has {len(content)} characters", hint=f"at most {LINE_LIMIT}")
        reader.take(number, content.rstrip("\r"))
    return reader.finish()


class _Reader:
    """Line after line, with the block that it is in."""

    def __init__(self) -> None:
        self._listing = Listing()
        self._function: Function | None = None
        self._metadata: int | None = None
        self._kernel: tuple[int, str] | None = None
        self._inline = False
        self._section = self._home = ".text"

    def take(self, number: int, line: str) -> None:
        if self._metadata is not None:
            if line.strip() in ("...", ".end_amdgpu_metadata"):
                self._metadata = None
            else:
                self._listing.metadata.append((number, line))
        elif line.strip() == "---":
            if self._listing.metadata:
                raise Refusal(f"line {number}: a second block of metadata", hint="give one code object's listing")
            self._metadata = number
        else:
            self._code(number, line)

    def finish(self) -> Listing:
        """All that was read.

        Raises:
            Refusal: a block that does not end.
        """
        if self._metadata is not None:
            raise Refusal(f"line {self._metadata}: the metadata does not end", hint="it ends with a line of ...")
        if self._kernel is not None:
            raise Refusal(f"line {self._kernel[0]}: .amdhsa_kernel does not end", hint="with .end_amdhsa_kernel")
        if self._inline:
            raise Refusal("a block of inline assembly does not end", hint="ASMSTART is without ASMEND")
        return self._listing

    def _code(self, number: int, line: str) -> None:
        if "/*" in line:
            raise Refusal(f"line {number}: a block comment", hint="this reader knows comments behind ; and //")
        found = _COMMENT.search(line)
        text, comment = (line[: found.start()], line[found.end() :]) if found else (line, "")
        self._note_inline(comment)
        text = text.strip()
        if not text:
            return
        if symbol := _SYMBOL.match(text):
            self._start(symbol[1], number)
        elif label := _LABEL.match(text):
            self._label(label[1], number)
        elif text.startswith("."):
            self._directive(number, text)
        elif self._function is not None:
            self._instruction(parse_instruction(text.replace("\t", " "), number, comment, self._inline))
        elif re.match(r"Disassembly of section|\S+:\s+file format ", text):
            return
        else:
            parse_instruction(text.replace("\t", " "), number, comment, self._inline)
            raise Refusal(f"line {number}: an instruction before any symbol", hint="keep the kernel's label")

    def _note_inline(self, comment: str) -> None:
        if "#ASMSTART" in comment:
            self._inline = True
        elif "#ASMEND" in comment:
            self._inline = False

    def _label(self, name: str, number: int) -> None:
        if not _LOCAL.match(name):
            self._start(name, number)
        elif name.startswith(".Lfunc_end"):
            self._function = None
        elif self._function is not None:
            if name in self._function.labels:
                raise Refusal(f"line {number}: label {shown(name)} is there twice")
            self._function.labels[name] = len(self._function.instructions)

    def _start(self, name: str, number: int) -> None:
        if name in self._listing.functions:
            raise Refusal(f"line {number}: symbol {shown(name)} is there twice", hint="give one code object's listing")
        self._function = self._listing.functions[name] = Function(name)
        self._home = self._section

    def _directive(self, number: int, text: str) -> None:
        name, value = (*text.split(None, 1), "")[:2]
        self._require_plain(number, name)
        if name in (".section", ".text", ".data", ".bss", ".rodata"):
            self._section = value.partition(",")[0].strip() if name == ".section" else name
        if name == ".amdgcn_target":
            self._listing.targets.append((number, value.strip().strip('"')))
        if name == ".amdhsa_kernel":
            if self._kernel is not None or value.strip() in self._listing.directives:
                raise Refusal(f"line {number}: .amdhsa_kernel {shown(value.strip())} within another or twice")
            self._kernel = number, value.strip()
            self._listing.directives[value.strip()] = {}
        elif name == ".end_amdhsa_kernel":
            self._kernel = None
        elif self._kernel is not None and name.startswith(".amdhsa_"):
            self._listing.directives[self._kernel[1]][name] = value.strip()

    def _require_plain(self, number: int, name: str) -> None:
        """Refuses `.long 0xbf8a0000`, which is a barrier, and `.if 0`, behind which one is none."""
        in_code = self._function is not None and self._section == self._home and self._home.startswith(".text")
        if _STEERING.match(name) or (in_code and not _BESIDE_CODE.match(name)):
            what = "between instructions" if in_code else "steers the assembler"
            raise Refusal(
                f"line {number}: directive {shown(name)} {what}",
                hint="give a listing in which every instruction stands as one, as a compiler prints it",
            )

    def _instruction(self, instruction: Instruction) -> None:
        function = self._function
        assert function is not None
        if self._section != self._home:
            raise Refusal(f"{instruction} is in {shown(self._section)}, its symbol in {shown(self._home)}")
        if address := _ADDRESS.match(instruction.comment):
            value = int(address[1], 16)
            function.start = value if function.start is None else function.start
            function.offsets[value - function.start] = len(function.instructions)
        function.instructions.append(instruction)
