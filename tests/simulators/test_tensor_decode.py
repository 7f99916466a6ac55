"""The forms of tensor copies: which are accepted, and which are refused by name."""

import pytest

from tileproof.simulators.ptx.alu.operation import NotModelled
from tileproof.simulators.ptx.async_form import TensorForm
from tileproof.simulators.ptx.device import Device
from tileproof.simulators.ptx.program import NONE, Kind, StateSpace, Step

LOAD = "cp.async.bulk.tensor.{n}d.{to}.global{mode}.mbarrier::complete_tx::bytes{flags}"
STORE = "cp.async.bulk.tensor.{n}d.global.shared::cta{mode}.bulk_group{flags}"
REDUCE = "cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.{op}{mode}.bulk_group{flags}"
PREFETCH = "cp.async.bulk.prefetch.tensor.{n}d.L2.global{mode}{flags}"


def step(instruction: str) -> Step:
    text = f"""
.version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128])
{{
    .reg .b16 %h<2>;
    .reg .b32 %r<9>;
    .reg .b64 %d<4>;
    mov.b64 %d0, map;
    cvta.param.u64 %d1, %d0;
    {instruction};
    ret;
}}
"""
    functions = Device().load_ptx(text)
    return functions["k"]._program.steps[2]


def corner(rank: int) -> str:
    return "{" + ", ".join(f"%r{index}" for index in range(rank)) + "}"


def form(found: Step) -> TensorForm:
    assert isinstance(found.asynchronous, TensorForm)
    return found.asynchronous


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("mode", ["", ".tile"])
@pytest.mark.parametrize("space", ["shared::cta", "shared::cluster"])
def test_loads_of_every_rank_tell_an_mbarrier(rank: int, mode: str, space: str) -> None:
    opcode = LOAD.format(n=rank, to=space, mode=mode, flags="")
    found = form(step(f"{opcode} [%r5], [%d1, {corner(rank)}], [%r6]"))
    assert (found.rank, len(found.coordinates), found.blocks, found.reduction) == (rank, rank, NONE, None)
    assert found.barrier is not None
    assert found.map.space is StateSpace.GENERIC


def test_a_multicast_names_blocks_and_a_hint_a_policy() -> None:
    opcode = LOAD.format(n=2, to="shared::cluster", mode="", flags=".multicast::cluster.L2::cache_hint")
    assert form(step(f"{opcode} [%r5], [%d1, {corner(2)}], [%r6], %h0, %d2")).blocks != NONE
    opcode = LOAD.format(n=2, to="shared::cluster", mode=".tile", flags=".L2::cache_hint")
    assert form(step(f"{opcode} [%r5+128], [%d1+0, {corner(2)}], [%r6+8], %d2")).blocks == NONE


@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize(("mode", "flags", "policy"), [("", "", ""), (".tile", ".L2::cache_hint", ", %d2")])
def test_stores_and_reductions_join_a_group(rank: int, mode: str, flags: str, policy: str) -> None:
    opcode = STORE.format(n=rank, mode=mode, flags=flags)
    found = form(step(f"{opcode} [%d1, {corner(rank)}], [%r5]{policy}"))
    assert (found.barrier, found.reduction, found.shared.space) == (None, None, StateSpace.SHARED)
    for operation in ("add", "min", "max", "inc", "dec", "and", "or", "xor"):
        opcode = REDUCE.format(n=rank, op=operation, mode=mode, flags=flags)
        assert form(step(f"{opcode} [%d1, {corner(rank)}], [%r5]{policy}")).reduction == operation


def test_prefetches_change_nothing() -> None:
    assert step(f"{PREFETCH.format(n=3, mode='.tile', flags='')} [%d1, {corner(3)}]").kind is Kind.NOTHING
    assert (
        step(f"{PREFETCH.format(n=1, mode='', flags='.L2::cache_hint')} [%d1, {corner(1)}], %d2").kind is Kind.NOTHING
    )
    assert step("prefetch.tensormap [%d1]").kind is Kind.NOTHING
    assert step("prefetch.param.tensormap [map]").kind is Kind.NOTHING


def load(rank: int, to: str = "shared::cta", mode: str = "", flags: str = "", rest: str = "", given: int = 0) -> str:
    """A load with `given` coordinates, or as many as its rank."""
    return f"{LOAD.format(n=rank, to=to, mode=mode, flags=flags)} [%r5], [%d1, {corner(given or rank)}], [%r6]{rest}"


def store(opcode: str, rank: int, mode: str, operation: str = "") -> str:
    return f"{opcode.format(n=rank, mode=mode, op=operation, flags='')} [%d1, {corner(rank)}], [%r5]"


@pytest.mark.parametrize(
    ("instruction", "named"),
    [
        (load(3, "shared::cluster", ".im2col", rest=", {%h0}"), "im2col"),
        (load(2, mode=".tile::gather4", given=5), "gather4"),
        (store(STORE, 3, ".im2col_no_offs"), "im2col_no_offs"),
        (store(STORE, 2, ".tile::scatter4"), "scatter4"),
        (store(REDUCE, 3, ".im2col_no_offs", "add"), "im2col"),
        (store(REDUCE, 3, "", "exch"), "reduction"),
        (f"{PREFETCH.format(n=3, mode='.im2col', flags='')} [%d1, {corner(3)}], {{%h0}}", "im2col"),
        (load(2, "shared::cluster", flags=".cta_group::2"), "cta_group::2"),
        (load(2, flags=".multicast::cluster", rest=", %h0"), "multicast"),
        (load(3, given=2), "operands"),
        (f"{LOAD.format(n=2, to='shared::cta', mode='', flags='')} [%r5], [%d1], [%r6]", "coordinates"),
        (load(6, given=5), "form"),
    ],
)
def test_other_modes_are_refused_by_name_and_line(instruction: str, named: str) -> None:
    with pytest.raises(NotModelled, match=named) as refusal:
        step(instruction)
    assert "PTX line 12" in refusal.value.message
