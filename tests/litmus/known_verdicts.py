"""Verdicts of the memory model that are known.

Sources: the litmus tests in the chapter "Memory Consistency Model" of the PTX ISA, and the published formal models of
PTX (Lustig et al., ASPLOS 2019; the proxies after Lustig et al., ISCA 2022) for the classic shapes.
"""

from collections.abc import Mapping

ALLOWED, FORBIDDEN = True, False
WELL_KNOWN: Mapping[str, bool] = {
    # Message passing needs both sides, and a scope that reaches.
    "MP, weak, blocks": ALLOWED,
    "MP, relaxed, gpu, blocks": ALLOWED,
    "MP, volatile, blocks": ALLOWED,
    "MP, weak data, relaxed flag, gpu, blocks": ALLOWED,
    "MP, weak data, release and acquire, gpu, blocks": FORBIDDEN,
    "MP, weak data, release and acquire, sys, blocks": FORBIDDEN,
    "MP, weak data, release and acquire, cta, blocks": ALLOWED,
    "MP, weak data, release and acquire, cta, one block": FORBIDDEN,
    "MP, weak data, relaxed flag, fence.acq_rel, gpu, blocks": FORBIDDEN,
    "MP, weak data, relaxed flag, fence.acq_rel, cta, blocks": ALLOWED,
    # Store buffering needs fence.sc.
    "SB, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "SB, weak data, release and acquire, gpu, blocks": ALLOWED,
    "SB, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    "SB, relaxed, fence.sc, cta, blocks": ALLOWED,
    "SB, relaxed, fence.sc, cta, one block": FORBIDDEN,
    # Load buffering.
    "LB, relaxed, gpu, blocks": ALLOWED,
    "LB, weak data, release and acquire, gpu, blocks": FORBIDDEN,
    "LB, relaxed, fence.acq_rel, gpu, blocks": FORBIDDEN,
    "load buffering with data dependencies": FORBIDDEN,
    # One place: strong accesses are coherent, racing weak ones are not, one thread's own always are.
    "CoRR, relaxed, gpu, blocks": FORBIDDEN,
    "CoRR, relaxed, cta, blocks": ALLOWED,
    "CoRR, weak, blocks": ALLOWED,
    "CoWW, weak, blocks": FORBIDDEN,
    "CoRW, relaxed, gpu, blocks": FORBIDDEN,
    "CoWR, relaxed, gpu, blocks": FORBIDDEN,
    # PTX is not multi-copy atomic: acquire and release leave IRIW open.
    "IRIW, weak data, release and acquire, gpu, blocks": ALLOWED,
    "IRIW, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "IRIW, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    # Causality is cumulative.
    "WRC, relaxed data, release and acquire, gpu, blocks": FORBIDDEN,
    "WRC, relaxed, fence.acq_rel, gpu, blocks": FORBIDDEN,
    "WRC, relaxed, gpu, blocks": ALLOWED,
    "ISA2, weak data, release and acquire, gpu, blocks": FORBIDDEN,
    "RWC, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "RWC, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    "R, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "R, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    "S, weak data, release and acquire, gpu, blocks": FORBIDDEN,
    "2+2W, relaxed, fence.acq_rel, gpu, blocks": ALLOWED,
    "2+2W, relaxed, fence.sc, gpu, blocks": FORBIDDEN,
    # Patterns.
    "release, relaxed atomic, acquire": FORBIDDEN,
    "release, relaxed atomic of the block's scope, acquire": ALLOWED,
    "release, then a relaxed store to the same place": FORBIDDEN,
    "a relaxed read, then an acquire of the same place": FORBIDDEN,
    "two exchanges of one place": FORBIDDEN,
    "two exchanges of the block's scope in two blocks": ALLOWED,
    # Barriers: cumulative on both sides of a fence.
    "bar.sync, then a fence and the flag": FORBIDDEN,
    "a fence before bar.sync, then the flag": ALLOWED,
    "the flag, a fence, then bar.sync": FORBIDDEN,
    "the flag, then bar.sync and the reader's fence": ALLOWED,
    # Proxies: the fence stands in the block of the asynchronous access, and cp.async needs none.
    "write, cp.async": FORBIDDEN,
    "write, bulk load": ALLOWED,
    "write, proxy fence, bulk load": FORBIDDEN,
    "release, acquire, proxy fence, bulk load": FORBIDDEN,
    "proxy fence, release, acquire, bulk load": ALLOWED,
    "bulk store, release, acquire, read": FORBIDDEN,
}
