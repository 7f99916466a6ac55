"""Clusters: what a launch may ask for, and what its threads read in the special registers."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileproof.oracle.refusal import Refusal
from tileproof.simulators.ptx.device import Device

Extent = tuple[int, int, int]
ON_SCHEDULES = pytest.mark.parametrize(("schedule", "seed"), [("friendly", 0), *[("adversarial", s) for s in range(8)]])
READ = (
    *("%ctaid.x", "%ctaid.y", "%ctaid.z"),
    *("%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z"),
    *("%clusterid.x", "%clusterid.y", "%clusterid.z"),
    *("%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z"),
    *("%nclusterid.x", "%nclusterid.y", "%nclusterid.z"),
    *("%cluster_ctarank", "%cluster_nctarank"),
)


def kernel(directives: str = "", body: str = "", target: str = "sm_90") -> str:
    """Each block writes what it reads in READ, and whether its cluster is explicit, to out[block]."""
    stores = "".join(f"mov.u32 %r, {name}; st.global.u32 [%d+{4 * i}], %r;" for i, name in enumerate(READ))
    return f"""
.version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 out)
{directives}
{{
    .reg .pred %p;
    .reg .b32 %r, %x, %y, %z, %nx, %ny, %block;
    .reg .b64 %d, %o;
    ld.param.u64 %o, [out];
    mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %z, %ctaid.z;
    mov.u32 %nx, %nctaid.x; mov.u32 %ny, %nctaid.y;
    mad.lo.u32 %block, %z, %ny, %y; mad.lo.u32 %block, %block, %nx, %x;
    mul.wide.u32 %d, %block, {4 * (len(READ) + 1)};
    add.s64 %d, %d, %o;
    {body or stores}
    mov.pred %p, %is_explicit_cluster;
    selp.u32 %r, 1, 0, %p;
    st.global.u32 [%d+{4 * len(READ)}], %r;
    ret;
}}
"""


def run(text: str, grid: Extent, cluster: Extent, **device: Any) -> NDArray[np.uint32]:
    """What every block wrote, [blocks, values]."""
    machine = Device(**device)
    blocks = grid[0] * grid[1] * grid[2]
    out = machine.allocate((blocks, len(READ) + 1), np.uint32)
    report = machine.load_ptx(text)["k"].launch(grid=grid, block=(1, 1, 1), args=(out,), cluster=cluster)
    assert report.findings == []
    return out.download()


@ON_SCHEDULES
@pytest.mark.parametrize(
    ("grid", "cluster"),
    [((8, 4, 6), (2, 1, 1)), ((8, 4, 6), (2, 2, 2)), ((8, 4, 6), (1, 4, 1)), ((5, 3, 1), (1, 1, 1))],
)
def test_special_registers_of_clusters_are_those_of_the_isa(
    grid: Extent, cluster: Extent, schedule: str, seed: int
) -> None:
    got = run(kernel(), grid, cluster, schedule=schedule, seed=seed)
    expected = []
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                place = [at % n for at, n in zip((x, y, z), cluster, strict=True)]
                rank = place[0] + cluster[0] * (place[1] + cluster[1] * place[2])
                index = [at // n for at, n in zip((x, y, z), cluster, strict=True)]
                count = [n // c for n, c in zip(grid, cluster, strict=True)]
                size = cluster[0] * cluster[1] * cluster[2]
                expected.append([x, y, z, *place, *index, *cluster, *count, rank, size, int(size > 1)])
    np.testing.assert_array_equal(got, expected)


def test_the_cluster_that_a_kernel_was_compiled_with_needs_no_argument() -> None:
    text = kernel(".reqnctapercluster 2, 1, 1")
    for cluster in ((1, 1, 1), (2, 1, 1)):
        got = run(text, (4, 1, 1), cluster)
        assert got[:, -2].tolist() == [2, 2, 2, 2]
        assert got[:, -1].tolist() == [1, 1, 1, 1]
    with pytest.raises(Refusal, match=r"cluster \(4, 1, 1\): the kernel k was compiled with .reqnctapercluster \(2, 1"):
        run(text, (4, 1, 1), (4, 1, 1))


def test_an_explicit_cluster_of_one_block_says_so() -> None:
    assert run(kernel(".explicitcluster"), (2, 1, 1), (1, 1, 1))[:, -1].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("cluster", "directives", "device", "said"),
    [
        ((3, 1, 1), "", {}, r"grid \(16, 2, 1\) is not a multiple of the cluster \(3, 1, 1\)"),
        ((0, 1, 1), "", {}, r"cluster \(0, 1, 1\): x, y, z must be at least 1"),
        ((16, 1, 1), "", {}, r"cluster \(16, 1, 1\) has 16 blocks, and 8 are portable"),
        ((16, 2, 1), "", {"large_clusters": True}, r"has 32 blocks: sm_90a has at most 16"),
        ((16, 1, 1), "", {"arch": "sm_120", "large_clusters": True}, r"has 16 blocks: sm_120 has at most 8"),
        ((4, 1, 1), ".maxclusterrank 2", {}, r"has 4 blocks: k was compiled with .maxclusterrank 2"),
        ((2, 1, 1), "", {"arch": "sm_89"}, r"cluster \(2, 1, 1\): sm_89 has no clusters"),
    ],
)
def test_clusters_that_hardware_refuses_are_refused(
    cluster: Extent, directives: str, device: dict[str, Any], said: str
) -> None:
    text = kernel(directives, body="ret;") if device.get("arch") != "sm_89" else PLAIN
    with pytest.raises(Refusal, match=said):
        run(text, (16, 2, 1), cluster, **device)


PLAIN = ".version 9.0 .target sm_80 .address_size 64 .visible .entry k(.param .u64 out) { ret; }"


def test_sixteen_blocks_run_with_the_opt_in() -> None:
    assert run(kernel(), (32, 1, 1), (16, 1, 1), large_clusters=True)[:, -2].tolist() == [16] * 32


def test_a_grid_that_counts_clusters_is_refused() -> None:
    with pytest.raises(Refusal, match="blocksareclusters"):
        Device().load_ptx(kernel(".reqntid 1, 1, 1\n.reqnctapercluster 2, 1, 1\n.blocksareclusters"))
