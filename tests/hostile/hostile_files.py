"""Files that nobody should have written: right ones of every kind that tileproof reads, damaged by rules and a seed.

    python tests/hostile/hostile_files.py COUNT [FIRST]

prints each file that ends otherwise than in an answer or one refusal, and how many ended how.
"""

import io
import json
import sys
import tempfile
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save as save_safetensors

from tileproof.conformance.cli import main as command_line
from tileproof.conformance.crash import read_crash
from tileproof.conformance.events import read_events
from tileproof.conformance.evidence.kernel_file import read_modules
from tileproof.conformance.input_file import read_input
from tileproof.conformance.ledger_file import read_ledger
from tileproof.conformance.mutation.result import Outcome, Result, read_results, write_results
from tileproof.conformance.reports.run_report import read_run
from tileproof.conformance.waivers.waiver import read_waivers
from tileproof.oracle.refusal import Refusal

MAX_PEAK_BYTES = 64 << 20
"""Memory that reading a small file may take, whatever it claims to hold."""

WORDS = (
    *(b"null", b"true", b"-1", b"0", b"1e999", b"-1e999", b"NaN", b"Infinity", b"18446744073709551616", b"9" * 5000),
    *(b'""', b"[]", b"{}", b"[" * 3000, b'{"a":' * 3000, b'"\\ud800"', b"\x00", b"\xff\xfe", b"\r\n", b",", b":"),
    *(b"__reduce__", b"cos\nsystem\n(S'true'\ntR.", b"\x80\x04\x95", b"'descr': '|O'", b"(-1, 2)"),
    *(b"(1, 1152921504606846976)", b"PK\x05\x06"),
)
"""What to put in: limits of numbers, depth, halves of surrogates, pickles, headers of arrays and archives."""

WAIVERS = b"""[[waiver]]
cases = "ninfer_quantize/*"
signature = "mismatch/*"
target = "gpu"
reason = "known since the last release"
expires = 2026-12-31
probe = "ninfer_quantize/fp8_quantize_rows/scalar/T2.K9.bf16/ties/0"
"""
KERNELS = b"""{"modules": [
{"kernel": "int8_combine", "defines": ["A=1"], "arch": "sm_90a", "compiler": "NVRTC 13.0.88",
 "source": "0123456789abcdef",
 "entries": {"int8_combine": "0123456789abcdef"}}
]}
"""

Read = Callable[[Path], object]


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Args:
        suffix: of its name.
        read: reads it whole.
        right: contents that are as they should be.
    """

    suffix: str
    read: Read
    right: tuple[bytes, ...]


def kinds(folder: Path) -> tuple[Kind, ...]:
    """Every kind of file that is read; right ones are made in the folder."""
    events, crashes = _a_run(folder)
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    arrays = {"a": rows, "b": rows.astype(np.float16)}
    tensors = save_safetensors({"w": rows.astype(ml_dtypes.bfloat16), "v": rows})
    return (
        Kind(".npy", _input, (_npy(rows), _npy(np.asfortranarray(rows.astype(">f2"))), _npy(rows, version=(2, 0)))),
        Kind(".npz", _input, (_npz(np.savez, arrays), _npz(np.savez_compressed, arrays))),
        Kind(".safetensors", _input, (tensors,)),
        Kind(".json", read_crash, crashes),
        Kind(".ndjson", lambda path: list(read_events(path)), (events,)),
        Kind(".ndjson", read_run, (events,)),
        Kind(".json", read_ledger, (_ledger(),)),
        Kind(".ndjson", read_results, (_results(folder),)),
        Kind(".toml", read_waivers, (WAIVERS,)),
        Kind(".json", read_modules, (KERNELS,)),
    )


def damaged(right: Sequence[bytes], random: np.random.Generator) -> bytes:
    """One of the files after one to six damages."""
    data = bytearray(right[_below(len(right), random)])
    for _ in range(1 + _below(6, random)):
        at, length = _below(len(data) + 1, random), _below(64, random)
        match _below(7, random):
            case 0:
                data[at : at + 1] = bytes([_below(256, random)])
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                data[at:at] = WORDS[_below(len(WORDS), random)]
            case 4:
                data[at : at + length] = WORDS[_below(len(WORDS), random)]
            case 5:
                del data[at:]
            case _:
                other = right[_below(len(right), random)]
                data[at:] = other[_below(len(other) + 1, random) :]
    return bytes(data)


def _below(limit: int, random: np.random.Generator) -> int:
    return int(random.integers(limit))


@dataclass(frozen=True)
class End:
    """What reading a file came to: "read", "refused", or what must not be, in words."""

    how: str

    @property
    def is_allowed(self) -> bool:
        """Whether a file may end so."""
        return self.how in ("read", "refused")


def end_of(kind: Kind, path: Path) -> End:
    """Read one file."""
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kind.read(path)
        how = "read"
    except Refusal as refusal:
        how = "refused" if refusal.message and "\n" not in refusal.message else f"refusal of lines: {refusal.message!r}"
    except BaseException as error:  # whatever it is, it must not be
        how = f"{type(error).__name__}: {error}"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return End(how if peak <= MAX_PEAK_BYTES else f"{peak} bytes of memory; {how}")


def judge(folder: Path, seeds: range) -> tuple[Counter[str], list[tuple[int, End]]]:
    """How the files of the seeds ended, and those that ended as none may."""
    every, counts, bad = kinds(folder), Counter[str](), []
    for seed in seeds:
        random = np.random.default_rng(seed)
        kind = every[seed % len(every)]
        path = folder / f"hostile{kind.suffix}"
        path.write_bytes(damaged(kind.right, random))
        end = end_of(kind, path)
        counts[end.how if end.is_allowed else "otherwise"] += 1
        if not end.is_allowed:
            bad.append((seed, end))
    return counts, bad


def _input(path: Path) -> object:
    return read_input(str(path))


def _a_run(folder: Path) -> tuple[bytes, tuple[bytes, ...]]:
    """The event file and the crash files of a run with two failures."""
    events, crashes = folder / "run.ndjson", folder / "crashes"
    ids = [f"ninfer_quantize/fp8_quantize_rows/vector/T1.K{k}.bf16/ties/0" for k in (64, 72)]
    given = ["--fault", "ties-away", "--schedule", "friendly", "--crash-dir", str(crashes), "--events", str(events)]
    assert command_line(["check", *given, *ids]) == 1
    return events.read_bytes(), tuple(path.read_bytes() for path in sorted(crashes.glob("*.json")))


def _npy(array: NDArray[Any], version: tuple[int, int] = (1, 0)) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version)
    return stream.getvalue()


def _npz(save: Callable[..., None], arrays: Mapping[str, Any]) -> bytes:
    stream = io.BytesIO()
    save(stream, **arrays)
    return stream.getvalue()


def _ledger() -> bytes:
    """The first rows of the shipped ledger."""
    whole = json.loads((Path(__file__).parents[2] / "conformance" / "ledger_metainfer.json").read_text())
    cut = {key: value[:3] if isinstance(value, list) else value for key, value in whole.items()}
    return json.dumps(cut).encode()


def _results(folder: Path) -> bytes:
    """Some lines of mutants' results."""
    path = folder / "results.ndjson"
    ended = (Outcome.KILLED, Outcome.SURVIVED)
    some = [
        Result(
            f"kernel/{at}", "variant", "entry", "drop", "kernel.cu", at, 9 * at, "ab12", ended[at % 2], "", ("race",)
        )
        for at in range(5)
    ]
    write_results(path, some)
    return path.read_bytes()


def main() -> None:
    count, first = (int(text) for text in (*sys.argv[1:], "0")[:2])
    with tempfile.TemporaryDirectory() as folder:
        counts, bad = judge(Path(folder), range(first, first + count))
    for seed, end in bad:
        sys.stdout.write(f"seed {seed}: {end.how[:300]}\n")
    sys.stdout.write(f"{dict(counts)}\n")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
