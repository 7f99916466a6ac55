"""What a launcher asks of a device: memory, modules and launches, on a GPU or on a CPU that runs the PTX.

These are protocols: a device satisfies them by its shape alone, so that kernels know neither CuPy nor a simulator.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, TypeAlias, Unpack, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tileproof.kernels.compile import CompiledModule
from tileproof.oracle.addresses.tensor_map import TensorMapArguments

Array: TypeAlias = NDArray[Any]
Extent3: TypeAlias = tuple[int, int, int]
"""Extents of a grid, block or cluster: x, y, z."""


class DeviceError(RuntimeError):
    """The device failed while it copied, loaded or ran: not a refusal, because nothing was asked wrongly.

    Args:
        error: the device's own name of the error, for example "CUDA_ERROR_MISALIGNED_ADDRESS".
        message: what was being done, and the device's words.
    """

    def __init__(self, error: str, message: str) -> None:
        super().__init__(error, message)
        self.error = error
        self.message = message

    def __str__(self) -> str:
        return f"{self.error}: {self.message}"


class Buffer(Protocol):
    """One allocation on one device."""

    @property
    def address(self) -> int:
        """Device address of the first byte."""

    @property
    def nbytes(self) -> int:
        """Size in bytes."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents it was allocated or uploaded with, outermost first."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type it was allocated or uploaded with."""

    def download(self) -> Array:
        """A copy of the contents on the host, of this shape and dtype."""


class Addressed(Protocol):
    """What begins at a device address: a buffer, or a view into one."""

    @property
    def address(self) -> int:
        """Device address of the first byte."""


Argument: TypeAlias = Buffer | np.generic
"""A kernel argument: a buffer (its address) or a numpy scalar of the very type that the kernel declares.

A structure by value, such as a tensor map, is a `numpy.void` of its bytes.
"""


class Where(Protocol):
    """A place in the compiled kernel."""

    @property
    def ptx_line(self) -> int:
        """Line of the PTX text, from 1."""

    @property
    def file(self) -> str | None:
        """CUDA source as line information names it; None where it says nothing."""

    @property
    def line(self) -> int | None:
        """Line of that source."""


class DeviceFinding(Protocol):
    """One cause that a device saw go wrong in a launch, however many threads it hit."""

    @property
    def kind(self) -> Enum:
        """Cause; the value is its name, for example "race"."""

    @property
    def message(self) -> str:
        """One sentence of cause."""

    @property
    def where(self) -> Where:
        """The instruction that showed it."""

    @property
    def threads(self) -> Sequence[object]:
        """Some of the threads concerned; the text of each gives block and thread index."""

    @property
    def count(self) -> int:
        """How many threads were hit."""


class Report(Protocol):
    """What a device says about one launch."""

    @property
    def findings(self) -> Sequence[DeviceFinding]:
        """Empty when all is well, or when the device cannot see (a GPU)."""

    @property
    def notes(self) -> Sequence[object]:
        """The quieter level: legal or harmless here, worth knowing."""


class Function(Protocol):
    """One kernel of a loaded module."""

    def launch(
        self,
        *,
        grid: Extent3,
        block: Extent3,
        args: Sequence[Argument],
        shared_bytes: int = 0,
        cluster: Extent3 = (1, 1, 1),
    ) -> Report:
        """Run to completion.

        Args:
            grid: blocks in x, y, z.
            block: threads of a block in x, y, z.
            args: one argument a kernel parameter, in order. A Python int or float is refused: its width is unknown.
            shared_bytes: dynamic shared memory of a block.
            cluster: blocks of a cluster in x, y, z.

        Raises:
            Refusal: the launch is illegal as asked.
            DeviceError: the device failed.
        """


class Device(Protocol):
    """Memory and modules of one device."""

    @property
    def name(self) -> str:
        """Short name, for example "sim"."""

    @property
    def arch(self) -> str:
        """Architecture to compile for, for example "sm_90a"."""

    def upload(self, array: Array) -> Buffer:
        """A new buffer that holds a copy of `array`."""

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Buffer:
        """A new buffer with undefined contents."""

    def free(self, buffer: Any) -> None:
        """Give a buffer of this device back."""

    def load(self, module: CompiledModule) -> Mapping[str, Function]:
        """The module's kernels by name."""


@runtime_checkable
class EncodesTensorMaps(Device, Protocol):
    """A device that makes tensor maps, which kernels with tensor copies take by value."""

    def tensor_map(self, buffer: Addressed, **arguments: Unpack[TensorMapArguments]) -> np.void:
        """A tensor map of this device: 128 bytes that a kernel takes by value, as `cuTensorMapEncodeTiled` makes them.

        Args:
            buffer: where the tensor begins.
            arguments: see TensorMapArguments; `shape` and `box` must be given.

        Raises:
            Refusal: the driver refuses such a map.
        """


@runtime_checkable
class KnowsItsBuffers(Protocol):
    """A device that can tell its own buffers from another device's; a launcher then refuses strangers."""

    def owns(self, buffer: Any) -> bool:
        """Whether `buffer` lives on this device."""


@runtime_checkable
class Compiles(Protocol):
    """A device that has its own way from a source to a module, one that keeps modules for example."""

    def compile(self, source: str, *, name: str, arch: str, defines: tuple[str, ...]) -> CompiledModule:
        """As `compile_source`."""
