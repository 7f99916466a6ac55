"""Hostile texts in a process that notes whatever touches the host: files, imports, code from text, processes, sockets.

python watch_host.py COUNT [LEAK]

All texts run twice: the first time modules load and machine code comes from its cache, from files that no text names;
the second time nothing at all may happen. LEAK, one of LEAKS, is done within, to show that it is seen.
"""

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from async_kernels import module
from corpus import Source
from mutator import hostile
from trial import judge

CANARY = "canary-in-a-ptx-text"
EVENTS = (
    "open",
    "exec",
    "compile",
    "import",
    "os.",
    "subprocess.",
    "socket.",
    "ctypes.",
    "shutil.",
    "marshal.",
    "pickle.",
)
LEAKS: dict[str, Callable[[], object]] = {
    "open": lambda: Path(__file__).read_text(),
    "eval": lambda: eval("1 + 1"),
    "import": lambda: __import__("this_module_is_not_there"),
    "process": lambda: subprocess.run(["true"], check=True),
    "socket": lambda: socket.gethostbyname("localhost"),
    "canary": lambda: Path(f"/{CANARY}").read_text(),
}
NAMES = ("__import__", "os.system", "eval", "__class__", "k$%1", "_decoded", "memory", CANARY.replace("-", "_"))


def named() -> Iterator[Source]:
    """Right texts whose names and strings would be paths, modules or attributes elsewhere."""
    for path in (f"/{CANARY}", f"../../{CANARY}", f"file://{CANARY}", "/etc/passwd", f"$({CANARY})", "{0.__class__}"):
        files = f'.file 1 "{path}"\n.section .debug_str {{ .b8 99 }}\n'
        text = module(".loc 1 1 1\n st.global.u32 [%d2+1], %r0; ret;", "")
        yield Source("names", text.replace(".shared .align 16", f"{files}.shared .align 16", 1))
        yield Source("names", text + files)
    for name in NAMES:
        yield Source(
            "names", module("ret;", f".global .b32 {name.replace('.', '_')};").replace("entry k(", f"entry {name}(")
        )


def main(count: int, leak: str = "") -> int:
    """Run them all; exit code 1 if anything was noted."""
    noted: list[str] = []
    watching = [False]

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(EVENTS) and (watching[0] or CANARY in repr(arguments)):
            noted.append(f"{event} {arguments!r}"[:200])

    sys.addaudithook(note)
    texts = [*named(), *map(hostile, range(count))]
    for again in (False, True):
        watching[0] = again
        for text in texts:
            judge(text)
        if leak:
            with suppress(OSError, ImportError):
                LEAKS[leak]()
    watching[0] = False
    sys.stdout.write(f"{len(texts)} texts, {len(noted)} events\n" + "\n".join(noted[:20]) + "\n")
    return 1 if noted else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), *sys.argv[2:]))
