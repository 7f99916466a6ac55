"""The history of runs: event files in one embedded DuckDB file, and what only many runs can tell.

A run is known by the hash of its file, so that no file counts twice. Runs are in the order in which they were added.
Needs the extra `history`.
"""

import hashlib
import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from tileproof.conformance.reports.run_report import read_start
from tileproof.kernels.given_file import opened
from tileproof.oracle.refusal import Refusal

if TYPE_CHECKING:
    import duckdb

SCHEMA = 1
"""Raised whenever the tables change; a file of another schema is refused."""

_TABLES = f"""
create table history as select {SCHEMA} as version;
create table run (
    run integer primary key, file varchar, sha256 varchar unique, tier varchar, fault varchar, environment varchar,
    places varchar);
create table result (
    run integer, "case" varchar, contract varchar, kernel varchar, route varchar, target varchar, outcome varchar,
    signatures varchar, seconds double, key ubigint, verdict ubigint);
"""

_EVENTS = """
create temp table event as
select event, "case", target, targets, passed, route, seconds, output_digest, finding, reason, message
from read_json(?, format = 'newline_delimited', maximum_object_size = 16777216, columns = {
    event: 'varchar', "case": 'varchar', target: 'varchar', targets: 'varchar[]', passed: 'boolean', route: 'varchar',
    seconds: 'double', output_digest: 'varchar', finding: 'struct(signature varchar)', reason: 'varchar',
    message: 'varchar'})
where event in ('case-finished', 'case-errored', 'case-not-run', 'finding-found')
"""

_RESULTS = """
insert into result
with each_target as (
    select "case", unnest(targets) as target, finding.signature as signature from event where event = 'finding-found'),
found as (
    select "case", target, string_agg(distinct signature, chr(10) order by signature) as signatures
    from each_target group by all)
select ?, ended."case", split_part(ended."case", '/', 1), split_part(ended."case", '/', 2),
       coalesce(nullif(route, ''), split_part(ended."case", '/', 3)), ended.target,
       case when event = 'case-errored' then 'without a verdict' when event = 'case-not-run' then 'not run'
            when passed then 'passed' else 'failed' end,
       coalesce(signatures, reason, message, ''), coalesce(seconds, 0),
       md5_number_lower(concat_ws(chr(10), ended."case", ended.target)),
       md5_number_lower(concat_ws(chr(10), passed, signatures, case when passed then output_digest end))
from event as ended left join found on found."case" = ended."case" and found.target = ended.target
where event <> 'finding-found'
"""

_TRENDS = """
select kernel, route, target, run, count(*), count(*) filter (outcome = 'failed'),
       count(*) filter (outcome in ('without a verdict', 'not run')), round(sum(seconds), 2)
from result where contract glob ? group by all order by kernel, route, target, run
"""

_STEPS = """
with step as (
    select key, run, verdict, lag(verdict) over each as before, lag(run) over each as run_before
    from result where outcome in ('passed', 'failed') and "case" glob ?
    window each as (partition by key order by run))
"""
"""Each decided result beside the one before it; a verdict is a hash of all that has to stay the same."""

_CHANGES = (
    _STEPS
    + """
select now."case", now.target, now.run, old.outcome, now.outcome, now.signatures
from step join result as now on now.key = step.key and now.run = step.run
join result as old on old.key = step.key and old.run = step.run_before
where step.verdict <> step.before order by now."case", now.target, now.run
"""
)

_UNSTABLE = (
    _STEPS
    + """
, told as (
    select key, count(*) filter (before is null or verdict <> before) as turns, count(distinct verdict) as verdicts,
           bool_or(verdict <> before and now.environment = old.environment and now.places = old.places
                   and now.fault is not distinct from old.fault) as alike
    from step join run as now on now.run = step.run left join run as old on old.run = run_before
    where key in (select key from step where verdict <> before) group by key)
select any_value("case"), any_value(target), verdicts, turns - 1
from told join result on result.key = told.key where alike or turns > verdicts
group by told.key, turns, verdicts order by turns desc, 1
"""
)

_SINCE = """
with step as (
    select key, "case", target, run, outcome, verdict, lag(verdict) over each as before, lag(outcome) over each as was
    from result where outcome in ('passed', 'failed') and "case" in (select unnest(?))
    window each as (partition by key order by run)),
turn as (select key, max(run) as first from step where before is null or verdict <> before group by key)
select any_value("case"), any_value(target), any_value(outcome), first, any_value(run.file), count(*),
       coalesce(any_value(was) filter (step.run = first), '')
from turn join step on step.key = turn.key and step.run >= first join run on run.run = first group by turn.key, first
"""

_SLOWEST = """
select "case", target, count(*), round(median(seconds), 3), round(max(seconds), 3) from result
where outcome in ('passed', 'failed') and "case" glob ? group by all order by median(seconds) desc, "case" limit ?
"""


@dataclass(frozen=True)
class Stretch:
    """The last runs in which a case had one verdict on a target: it passed with the same bytes, or failed alike.

    Args:
        outcome: passed or failed.
        run: number of the first of them.
        file: that run's.
        runs: how many.
        before: how it ended in the run before them, "" where there is none.
    """

    outcome: str
    run: int
    file: str
    runs: int
    before: str

    def __str__(self) -> str:
        runs = "1 run" if self.runs == 1 else f"{self.runs} runs"
        otherwise = " otherwise" if self.before == self.outcome else ""
        before = f"it {self.before}{otherwise} before" if self.before else "no run before"
        return f"{self.outcome} so since run {self.run} ({self.file}), {runs}; {before}"


Stretches = Mapping[tuple[str, str], Stretch]
"""By case and target."""
NO_HISTORY: Stretches = MappingProxyType({})


class History:
    """A file of runs.

    Args:
        path: of the file; made if it is not there.

    Raises:
        Refusal: the extra is not installed, or the file is no history of ours.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = _open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def add(self, path: Path) -> bool:
        """Take a run in; whether it was not there yet.

        Raises:
            Refusal: the file cannot be read, or holds no run or more than one; or the disk is full, and the history is
                as it was.
        """
        start = read_start(path)
        digest = _sha256(path)
        known = self._connection.execute("select 1 from run where sha256 = ?", [digest]).fetchone()
        if known is not None:
            return False
        (number,) = self._one("select coalesce(max(run), 0) + 1 from run")
        environment = repr(start.environment)
        places = ", ".join(map(str, start.targets))
        with _Transaction(self._connection, path, self._path):
            self._connection.execute(_EVENTS, [str(path)])
            row = [number, path.name, digest, start.tier, start.fault, environment, places]
            self._connection.execute("insert into run values (?, ?, ?, ?, ?, ?, ?)", row)
            self._connection.execute(_RESULTS, [number])
            self._connection.execute("drop table event")
        return True

    def runs(self) -> Sequence[tuple[Any, ...]]:
        """Number, file, tier, places, fault of each run, and its cases and failures."""
        return self._all(
            "select run.run, file, tier, places, fault, count(outcome), count(*) filter (outcome = 'failed') "
            "from run left join result on result.run = run.run group by all order by run.run"
        )

    def trends(self, contract: str) -> Sequence[tuple[Any, ...]]:
        """Kernel, route, target, run, cases, failed, without a verdict or not run, seconds; by a glob of contracts."""
        return self._all(_TRENDS, contract)

    def changes(self, case: str) -> Sequence[tuple[Any, ...]]:
        """Case, target, run in which it changed, verdict before and after, signatures; by a glob of case ids."""
        return self._all(_CHANGES, case)

    def unstable(self, case: str) -> Sequence[tuple[Any, ...]]:
        """Case, target, verdicts, how often it changed: between runs that are alike, or back to what it was."""
        return self._all(_UNSTABLE, case)

    def since(self, cases: Iterable[str]) -> Stretches:
        """Since when cases have the verdict of their last run, by case and target; those of no run are not there."""
        rows = self._all(_SINCE, list(cases))
        return {(case, target): Stretch(*rest) for case, target, *rest in rows}

    def slowest(self, case: str, limit: int) -> Sequence[tuple[Any, ...]]:
        """Case, target, runs, median and longest seconds."""
        return self._all(_SLOWEST, case, limit)

    def _all(self, query: str, *values: object) -> Sequence[tuple[Any, ...]]:
        return self._connection.execute(query, list(values)).fetchall()

    def _one(self, query: str) -> tuple[Any, ...]:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return row


class _Transaction:
    """All of a run or nothing; what DuckDB says of a file becomes a refusal."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", path: Path, kept: Path) -> None:
        self._connection = connection
        self._path = path
        self._kept = kept

    def __enter__(self) -> None:
        self._connection.execute("begin")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        import duckdb

        if error is None:
            self._commit()
            return
        self._connection.execute("rollback")
        if isinstance(error, duckdb.Error):
            raise Refusal(f"{self._path}: cannot be taken in: {str(error).splitlines()[0]}") from None

    def _commit(self) -> None:
        import duckdb

        try:
            self._connection.execute("commit")
        except duckdb.Error as error:
            hint = f"nothing of {self._path} was taken in: make room on the disk, or give another --db"
            reason = str(error).splitlines()[0].rpartition("Failed to commit: ")[2]
            raise Refusal(f"{self._kept}: cannot be written: {reason}", hint=hint) from None


def _open(path: Path) -> "duckdb.DuckDBPyConnection":
    if importlib.util.find_spec("duckdb") is None:
        raise Refusal("the history of runs needs DuckDB", hint="pip install 'tileproof[history]'")
    import duckdb

    if os.path.lexists(path):
        with opened(path, hint="give another --db"):  # DuckDB would wait for a FIFO
            pass
    is_new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect(
            str(path), config={"autoinstall_known_extensions": False, "autoload_known_extensions": False}
        )
        tables = {name for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()}
        if not tables:
            connection.execute(_TABLES)
            return connection
        if tables != {"history", "run", "result"}:
            raise Refusal(f"{path}: is no history of runs", hint="give another file with --db")
        (version,) = connection.execute("select version from history").fetchone() or (None,)
        if version != SCHEMA:
            raise Refusal(f"{path}: of version {version}; this one reads {SCHEMA}", hint="begin another file")
    except (duckdb.Error, OSError) as error:
        if is_new:  # a first page without the rest is no history
            path.unlink(missing_ok=True)
        raise Refusal(f"{path}: cannot be opened: {str(error).splitlines()[0]}", hint="give another --db") from None
    return connection


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
