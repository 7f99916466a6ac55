"""Forms of PTX of which an assembler is known to make something else than PTX says: docs/ptxas.md has the evidence.

That a kernel has one is a reason to look there, and no proof: whether its case is one of those shows the machine code.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tileproof.conformance.triage.cause import Cause
from tileproof.conformance.triage.explanation import Explanation, Strength
from tileproof.kernels.watch import Launched

_GUARD = r"@!?%\w+\s+"


@dataclass(frozen=True)
class Form:
    """One form.

    Args:
        section: of docs/ptxas.md.
        pattern: an instruction that has it.
    """

    section: str
    pattern: re.Pattern[str]


FORMS = (
    Form("Guards that are lost", re.compile(_GUARD + r"testp\.")),
    Form("Guards that are lost", re.compile(_GUARD + r"set\.[\w.]*\.(?:f16|bf16|f32)\.\w+\s")),
    Form("Guards that are lost", re.compile(_GUARD + r"set\.[\w.]*\.[us]32\.(?:f16|bf16|u16|s16)\s")),
    Form("Guards that are lost", re.compile(_GUARD + r"v(?:add|sub)4\.[\w.]*\.add\s")),
    Form("Loops", re.compile(r"mad\.hi\.u32\s+(%\w+),[^;]*,\s*\1\s*;")),
    Form("A guard moved behind its end", re.compile(_GUARD + r"brev\.b64\s")),
    Form("One register twice in `lop3`", re.compile(r"lop3\.(?:or|and)\.b32\s+[^;]*?(%\w+),[^;]*\1[\s,][^;]*;")),
    Form("What the ISA leaves open, or nearly", re.compile(r"\b(?:min|max)\.[\w.]*f\d+\w*\s+%\w+,\s*(%\w+),\s*\1\s*;")),
)


def known_forms(launched: Iterable[Launched], count: int) -> Iterator[Explanation]:
    """A hint for the first of these forms in each kernel.

    Args:
        launched: what ran.
        count: of elements that differ.
    """
    texts = dict.fromkeys(one.module.ptx for one in launched)
    for text in texts:
        for number, line in enumerate(text.splitlines(), 1):
            form = next((one for one in FORMS if one.pattern.search(line)), None)
            if form is not None:
                said = f"PTX line {number}, `{line.strip()}`: see {form.section} in docs/ptxas.md"
                yield Explanation(Cause.ASSEMBLER, said, Strength.HINT, 0, count)
                break
