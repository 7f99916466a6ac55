"""Order inside a cluster: distributed shared memory, cluster barriers, arrivals at a peer's barrier."""

import numpy as np
from pair import Pair, Words

_EXCHANGE = """    __shared__ u32 s[128];
    const u32 other = rank() ^ 1;
    cluster_arrive(); cluster_wait();
    store_peer(peer(&s[127 - t], other), in[g]);
    cluster_arrive();
    cluster_wait();
    out[g] = load_shared(&s[t]);"""

_READ_PEER = """    __shared__ u32 s[128];
    const u32 other = rank() ^ 1;
    store_shared(&s[t], in[g]);
    cluster_arrive();
    cluster_wait();
    out[g] = load_peer(peer(&s[127 - t], other));
    cluster_arrive();  // last
    cluster_wait();  // last"""

_SIGNAL = """    __shared__ u32 s[128];
    __shared__ u64 full;
    const u32 other = rank() ^ 1;
    if (t == 0) { init(&full, 128); fence_init(); }
    cluster_arrive_relaxed(); cluster_wait();
    store_peer(peer(&s[127 - t], other), in[g]);
    arrive_peer_release(peer(&full, other));
    wait_cluster(&full, 0);
    out[g] = load_shared(&s[t]);
    cluster_arrive(); cluster_wait();"""


def _crossed(words: Words) -> Words:
    return np.concatenate((words[128:256][::-1], words[:128][::-1]))


PAIRS = (
    Pair(
        "cluster barrier",
        "a cluster barrier between a write to a peer's shared memory and its read",
        _EXCHANGE,
        ("    cluster_arrive();\n    cluster_wait();\n", "    __syncthreads();\n"),
        _crossed,
        blocks=2,
        cluster=2,
        kinds=("race", "uninitialised"),
    ),
    Pair(
        "relaxed cluster arrival",
        "the arrival releases",
        _EXCHANGE,
        ("    cluster_arrive();\n    cluster_wait();\n", "    cluster_arrive_relaxed();\n    cluster_wait();\n"),
        _crossed,
        blocks=2,
        cluster=2,
    ),
    Pair(
        "write after the cluster arrival",
        "what a thread does between arrival and wait is not ordered",
        _EXCHANGE + "\n    cluster_arrive(); cluster_wait();  // nobody has gone when the late write comes",
        (
            "    store_peer(peer(&s[127 - t], other), in[g]);\n    cluster_arrive();\n    cluster_wait();\n",
            "    cluster_arrive();\n    store_peer(peer(&s[127 - t], other), in[g]);\n    cluster_wait();\n",
        ),
        _crossed,
        blocks=2,
        cluster=2,
    ),
    Pair(
        "peer not started",
        "a cluster barrier before the first access to a peer's shared memory",
        _EXCHANGE,
        ("    cluster_arrive(); cluster_wait();\n", ""),
        _crossed,
        blocks=2,
        cluster=2,
        kinds=("race", "use-after-free", "out-of-bounds"),
    ),
    Pair(
        "peer gone",
        "a block stays until its peers have read its shared memory",
        _READ_PEER,
        ("    cluster_arrive();  // last\n    cluster_wait();  // last", ""),
        _crossed,
        blocks=2,
        cluster=2,
        kinds=("race", "use-after-free", "out-of-bounds"),
    ),
    Pair(
        "arrival at a peer's barrier",
        "an arrival that releases to the cluster carries data",
        _SIGNAL,
        ("arrive_peer_release(peer(&full, other))", "arrive_peer(peer(&full, other))"),
        _crossed,
        blocks=2,
        cluster=2,
        kinds=("race", "scope"),
    ),
    Pair(
        "wait of the block's scope",
        "a wait that acquires from the cluster",
        _SIGNAL,
        ("wait_cluster(&full, 0)", "wait(&full, 0)"),
        _crossed,
        blocks=2,
        cluster=2,
        kinds=("race", "scope"),
    ),
    Pair(
        "fence.mbarrier_init",
        "an initialisation is published through a relaxed start-up barrier by its fence",
        _SIGNAL,
        (" fence_init();", ""),
        _crossed,
        blocks=2,
        cluster=2,
        kinds=("race", "barrier"),
    ),
    Pair(
        "arrival before the write to a peer",
        "the write comes before the arrival",
        _SIGNAL,
        (
            "    store_peer(peer(&s[127 - t], other), in[g]);\n    arrive_peer_release(peer(&full, other));\n",
            "    arrive_peer_release(peer(&full, other));\n    store_peer(peer(&s[127 - t], other), in[g]);\n",
        ),
        _crossed,
        blocks=2,
        cluster=2,
    ),
    Pair(
        "relaxed cluster arrival after a fence",
        "a relaxed arrival publishes what a fence of the cluster's scope released",
        """    __shared__ u32 s[128];
    const u32 other = rank() ^ 1;
    cluster_arrive(); cluster_wait();
    store_peer(peer(&s[127 - t], other), in[g]);
    fence_cluster();
    cluster_arrive_relaxed();
    cluster_wait();
    out[g] = load_shared(&s[t]);""",
        ("    fence_cluster();\n", ""),
        _crossed,
        blocks=2,
        cluster=2,
    ),
    Pair(
        "st.async",
        "a wait for the barrier that the store to a peer signals",
        """    __shared__ u32 s[128];
    __shared__ u64 full;
    const u32 other = rank() ^ 1;
    if (t == 0) { init(&full, 1); arrive_expect(&full, 512); }
    cluster_arrive(); cluster_wait();
    store_async(peer(&s[127 - t], other), in[g], peer(&full, other));
    wait(&full, 0);
    out[g] = load_shared(&s[t]);
    cluster_arrive(); cluster_wait();""",
        (
            "    wait(&full, 0);\n    out[g] = load_shared(&s[t]);\n",
            "    out[g] = load_shared(&s[t]);\n    wait(&full, 0);\n",
        ),
        _crossed,
        blocks=2,
        cluster=2,
        kinds=("race", "uninitialised"),
    ),
    Pair(
        "multicast",
        "every block waits for its own part of a multicast copy",
        """    __shared__ alignas(128) u32 s[128];
    __shared__ u64 full;
    if (t == 0) { init(&full, 1); arrive_expect(&full, 512); }
    cluster_arrive(); cluster_wait();
    if (t == 0 && rank() == 0) bulk_multicast(s, in, 512, &full, 3);
    wait(&full, 0);
    out[g] = load_shared(&s[127 - t]);
    cluster_arrive(); cluster_wait();""",
        ("    wait(&full, 0);\n", "    if (rank() == 0) wait(&full, 0);\n"),
        lambda words: np.tile(words[:128][::-1], 2),
        blocks=2,
        cluster=2,
        kinds=("race", "uninitialised"),
    ),
)
