"""Which function executes which asynchronous step."""

from collections.abc import Callable, Mapping

from tileproof.simulators.ptx.machine.asynchronous import (
    async_store,
    bulk,
    group_wait,
    mbarrier,
    small_copy,
    tensor_copy,
    tensor_map_memory,
)
from tileproof.simulators.ptx.machine.registers import Selection
from tileproof.simulators.ptx.machine.wave import Wave
from tileproof.simulators.ptx.program import Kind, Step

HANDLERS: Mapping[Kind, Callable[[Wave, Step, int, Selection], None]] = {
    Kind.MBARRIER: mbarrier.mbarrier,
    Kind.COPY: small_copy.copy,
    Kind.COPY_GROUP: group_wait.group,
    Kind.BULK: bulk.bulk,
    Kind.TENSOR: tensor_copy.tensor,
    Kind.MAP_EDIT: tensor_map_memory.edit_maps,
    Kind.ASYNC_STORE: async_store.store,
}
