"""The file of waivers, TOML, and what a waiver is.

    [[waiver]]
    cases = "metainfer_w8a8_gemm/int8_gemm/wgmma-*"
    signature = "mismatch/out/*"          # of the findings; all of them where it is left out
    target = "gpu"                        # any where it is left out
    reason = "driver 580.95 loses the last stage; reported, fixed in the next"
    expires = 2026-12-31
    probe = "metainfer_w8a8_gemm/int8_gemm/wgmma-128x128-s3/M129.N128.K208.S0.nk8/one-hot/0"

The probe is a case that fails because of what is waived. It runs with every run that the waiver concerns: once it no
longer fails so, the waiver has outlived its reason.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tileproof.conformance.case import Case
from tileproof.conformance.records import MAX_SHOWN, shorten
from tileproof.conformance.registry import find_case
from tileproof.conformance.target import Target
from tileproof.kernels.given_file import read_given_text
from tileproof.oracle.refusal import Refusal

MAX_BYTES = 1 << 20
MAX_WAIVERS = 1000
LEAST_REASON = 10
_FIELDS = {"cases": str, "signature": str, "target": str, "reason": str, "expires": date, "probe": str}
_NEEDED = ("cases", "reason", "expires", "probe")


@dataclass(frozen=True)
class Waiver:
    """One waiver.

    Args:
        number: its place in the file, from 1.
        cases: glob of the ids that it concerns.
        signature: glob of the signatures of findings.
        target: where; None for everywhere.
        reason: why what fails is tolerated.
        expires: the last day on which it holds.
        probe: a case that fails because of it.
    """

    number: int
    cases: str
    reason: str
    expires: date
    probe: Case
    signature: str = "*"
    target: Target | None = None

    @property
    def name(self) -> str:
        """As lines name it."""
        return f"waiver {self.number} ({shorten(self.cases)[1:-1]})"

    def concerns(self, case: str, target: Target) -> bool:
        """Whether a case on a target is one of its."""
        return self.target in (None, target) and fnmatchcase(case, self.cases)

    def takes(self, case: str, target: Target, signature: str) -> bool:
        """Whether it waives a finding."""
        return self.concerns(case, target) and fnmatchcase(signature, self.signature)


def read_waivers(path: Path) -> tuple[Waiver, ...]:
    """The waivers of a file.

    Raises:
        Refusal: it cannot be read, is no TOML, or a waiver is not as it must be; the message names which and what.
    """
    text = read_given_text(path, MAX_BYTES, hint="--waivers takes a page of TOML")
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise Refusal(f"{path}: not readable TOML: {str(error)[:MAX_SHOWN]}") from None
    if unknown := data.keys() - {"waiver"}:
        raise Refusal(f"{path}: {shorten(min(unknown))} is unknown", hint="it holds [[waiver]] tables alone")
    rows = data.get("waiver", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Refusal(f"{path}: waiver is no list of tables", hint="begin each with [[waiver]]")
    if len(rows) > MAX_WAIVERS:
        raise Refusal(f"{path}: {len(rows)} waivers; the most is {MAX_WAIVERS}")
    return tuple(_waiver(row, number, f"{path}: waiver {number}") for number, row in enumerate(rows, 1))


def _waiver(row: Mapping[str, Any], number: int, where: str) -> Waiver:
    if unknown := row.keys() - _FIELDS.keys():
        raise Refusal(f"{where}: {shorten(min(unknown))}: no such field", hint="known are " + ", ".join(_FIELDS))
    for name in _NEEDED:
        if name not in row:
            raise Refusal(f"{where}: {name} is missing", hint="a waiver has " + ", ".join(_NEEDED))
    for name, value in row.items():
        if not isinstance(value, _FIELDS[name]) or isinstance(value, datetime):
            what = "a date, as 2026-12-31, without quotes" if name == "expires" else "a text"
            raise Refusal(f"{where}: {name} is {shorten(value)}, not {what}")
    if len(row["reason"].strip()) < LEAST_REASON:
        raise Refusal(f"{where}: reason {shorten(row['reason'])} says too little", hint="a sentence")
    if row.get("target", Target.SIM) not in set(Target):
        raise Refusal(f"{where}: target is {shorten(row['target'])}", hint="one of " + ", ".join(Target))
    target = Target(row["target"]) if "target" in row else None
    try:
        probe = find_case(row["probe"])
    except Refusal as refusal:
        raise Refusal(f"{where}: probe: {refusal.message}", hint=refusal.hint) from None
    waiver = Waiver(
        number=number,
        cases=row["cases"],
        reason=" ".join(row["reason"].split()),
        expires=row["expires"],
        probe=probe,
        signature=row.get("signature", "*"),
        target=target,
    )
    if not fnmatchcase(str(probe), waiver.cases):
        raise Refusal(f"{where}: its probe {shorten(str(probe))} is none of its cases")
    return waiver
