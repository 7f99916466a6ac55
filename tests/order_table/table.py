"""All rows of the order table."""

import async_pairs
import block_pairs
import cluster_pairs
import global_pairs
import proxy_pairs
import wgmma_pairs
from pair import Pair

GROUPS = {
    "one block": block_pairs.PAIRS,
    "asynchronous copies and barriers": async_pairs.PAIRS,
    "proxies, elected threads, further mbarriers": proxy_pairs.PAIRS,
    "wgmma": wgmma_pairs.PAIRS,
    "between blocks": global_pairs.PAIRS,
    "clusters": cluster_pairs.PAIRS,
}
PAIRS: tuple[Pair, ...] = tuple(pair for pairs in GROUPS.values() for pair in pairs)
