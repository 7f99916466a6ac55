"""How any floor says that it is at something that takes long, compiling above all, to whoever listens.

A record of the logger `LOG` when it begins, an empty one when it has ended; nothing is printed here.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

LOG = logging.getLogger("tileproof.busy")


@contextmanager
def busy(text: str) -> Iterator[None]:
    """Say it for as long as the block takes.

    Args:
        text: such as "compiling mm_fp8.cu for sm_90a".
    """
    LOG.info("%s", text)
    try:
        yield
    finally:
        LOG.info("")
