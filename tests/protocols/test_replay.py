"""Counterexamples of the models on the real kernels: found along the trace, and nothing in the kernels as shipped."""

import pytest

from tileproof.conformance.cli import main
from tileproof.conformance.faults import fault
from tileproof.conformance.protocol_replay import REPLAYS, Replay, replay_trace
from tileproof.conformance.protocols import PROTOCOLS, fault_name

# One of a kind in the gate; the slow tests take all.
GATE = (
    "election no-acquire: ring-no-fence-after-the-ticket",
    "split-k one-plane: w8a8-planes-on-one-another",
    "tma-ring released-early: tma-released-early",
    "cp-async-ring no-second-barrier: no-barrier-before-the-refill",
    "mm-ring-lean no-barrier: mm-no-barrier-after-the-wait",
)
SHIPPED = (
    "split-k one-plane: w8a8-planes-on-one-another",
    "cp-async-ring no-second-barrier: no-barrier-before-the-refill",
)

# Where the kernel makes fewer instructions than the model steps: groups that are not committed, and a last one that
# fp8_a8_gemm_cp_async, which fetches a tile ahead, has no use for.
SHORTER = {
    "mm-ring-lean empty-not-committed: mm-empty-group-not-committed",
    "cp-async-ring no-last-barrier: staging-over-live-operands",
    "cp-async-ring written-early: no-barrier-before-the-copy-out",
    "split-k begins-at-zero: w8a8-counter-meant-to-begin-at-zero",
}

# Faults that no kernel has, and why they are not replayed.
OF_HOSTS = {
    "election": {
        "two-streams": "the device runs one launch at a time",
        "product-behind-one-pair": "a host's, between two kernels",
        "one-graph": "a host's, which captures one step",
    },
    "split-k": {
        "narrow-counter": "needs a counter near its wrap in the model, too",
        "not-reset": "our counters are never set back",
        "two-streams": "the device runs one launch at a time",
    },
    "tma-ring": {"tries-once": "our waits are loops"},
    "cp-async-ring": {
        "empty-not-committed": "by mm_fp8",
        "slot-short": "a lean ring has no slot more",
        "no-drain": "it has no drain",
    },
}


@pytest.mark.parametrize("name", GATE)
def test_a_counterexample_is_found_on_the_kernel(name: str) -> None:
    _found(REPLAYS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REPLAYS if name not in GATE])
def test_so_is_every_other(name: str) -> None:
    _found(REPLAYS[name])


def _found(replay: Replay) -> None:
    replayed = replay_trace(replay)
    assert replay.caught(replayed.kinds), replayed
    assert replayed.made == replayed.moves or replay.name in SHORTER, replayed


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_kernel_has_no_finding_along_the_trace(name: str) -> None:
    assert replay_trace(REPLAYS[name], faulty=False).kinds == frozenset()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REPLAYS if name not in SHIPPED])
def test_so_has_no_other(name: str) -> None:
    assert replay_trace(REPLAYS[name], faulty=False).kinds == frozenset()


def test_every_fault_that_a_kernel_can_have_is_replayed() -> None:
    replayed = {(one.protocol, one.fault) for one in REPLAYS.values()}
    for family, left_out in OF_HOSTS.items():
        faults = {fault_name(one) for one in PROTOCOLS[family].faults if one}
        if family == "cp-async-ring":
            replayed |= {(family, name) for name in ("empty-not-committed", "slot-short", "no-drain")}
        assert faults == {name for of, name in replayed if of == family} | set(left_out), family
    assert all(fault(one.kernel_fault).edits for one in REPLAYS.values())


def test_the_command_replays_and_says_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", "split-k", "--parts", "3", "--fault", "one-plane", "--replay"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("replay   w8a8-planes-on-one-another on int8_gemm_decode: mismatch, race")
    assert main(["model", "election", "--blocks", "2", "--fault", "one-graph", "--replay"]) == 2
    assert "no kernel has this fault" in capsys.readouterr().err
