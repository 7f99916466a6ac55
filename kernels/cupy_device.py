"""A GPU through CuPy: raw memory, copies by bytes, cubins and launches.

CuPy serves as the driver's memory and module interface only. Its arrays know no bfloat16, so a buffer is an allocation
with a shape and an element type of our own; its kernels check no argument, so that is done here; every launch is waited
for, so that an error belongs to the launch that caused it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from types import ModuleType
from typing import Any, Unpack

import numpy as np

from tileproof.kernels import driver_tensor_map
from tileproof.kernels.compile import CompiledModule
from tileproof.kernels.device import Addressed, Argument, Array, DeviceError, DeviceFinding, Extent3
from tileproof.oracle.addresses.tensor_map import TensorMapArguments, TensorMapRequest
from tileproof.oracle.refusal import Refusal

# NOTE: the least driver that loads cubins of the CUDA 13 compiler (CUDA 13.0 release notes, driver versions).
MIN_DRIVER_CUDA = 13000

# NOTE: more dynamic shared memory than this must be asked for (CUDA C++ Programming Guide 13.0, "Shared Memory").
SHARED_BYTES_WITHOUT_OPT_IN = 48 * 1024

# NOTE: from compute capability 9.0 on, wgmma, setmaxnreg and others exist only in the "a" variant.
FIRST_ARCHITECTURE_SPECIFIC = 90


@dataclass(frozen=True)
class GpuReport:
    """A GPU sees nothing but errors, and these are raised: a report of a GPU is empty."""

    findings: tuple[DeviceFinding, ...] = ()
    notes: tuple[object, ...] = ()


@dataclass(eq=False)
class CupyBuffer:
    """One allocation on one GPU.

    Args:
        device: the device that made it.
        memory: CuPy's pointer, which keeps the allocation alive; None for no bytes, and after free().
        shape: extents, outermost first.
        dtype: element type, also one that CuPy does not know.
    """

    device: "CupyDevice"
    memory: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def address(self) -> int:
        """Device address of the first byte; 0 if there is none."""
        return int(self.memory.ptr) if self.memory is not None else 0

    def download(self) -> Array:
        """A copy of the contents on the host.

        Raises:
            DeviceError: the copy failed.
        """
        host = np.empty(self.shape, self.dtype)
        if self.nbytes:
            with _errors("download"):
                self.memory.copy_to_host(host.ctypes.data, self.nbytes)
        return host


@dataclass(frozen=True)
class CupyFunction:
    """One kernel of a loaded cubin."""

    name: str
    function: Any
    device: "CupyDevice" = field(repr=False)

    def launch(
        self,
        *,
        grid: Extent3,
        block: Extent3,
        args: Sequence[Argument],
        shared_bytes: int = 0,
        cluster: Extent3 = (1, 1, 1),
    ) -> GpuReport:
        """Launch and wait; see `tileproof.kernels.device.Function`.

        Raises:
            Refusal: an argument of unknown width, or a cluster size that is not compiled in.
            DeviceError: the launch or the kernel failed. The CUDA context is lost if the kernel did.
        """
        values = self.prepared(args, shared_bytes, cluster)
        with self.device.current(f"launch of {self.name}"):
            self.function(grid, block, values, shared_mem=shared_bytes)
            self.device.synchronize()
        return GpuReport()

    def prepared(self, args: Sequence[Argument], shared_bytes: int, cluster: Extent3) -> tuple[np.generic, ...]:
        """The arguments as CuPy takes them, after all that comes before a launch.

        Raises:
            Refusal: as `launch`.
            DeviceError: there is not so much shared memory.
        """
        values = tuple(_value(self.name, position, argument) for position, argument in enumerate(args))
        if cluster != (1, 1, 1):
            raise Refusal(
                f"{self.name}: CuPy launches no clusters, and {cluster} is asked for",
                hint="compile the cluster size in with __cluster_dims__",
            )
        # NOTE: before each launch, since the limit belongs to one function on one device.
        if shared_bytes > SHARED_BYTES_WITHOUT_OPT_IN:
            with self.device.current(f"launch of {self.name}"):
                self.device.allow_shared_bytes(self.function, shared_bytes)
        return values


class CupyDevice:
    """One GPU of this machine.

    Args:
        index: CUDA's number of the GPU.

    Raises:
        Refusal: CuPy, a driver that is new enough, or that GPU is missing; the message says which.
    """

    name = "gpu"

    def __init__(self, index: int = 0) -> None:
        self._cupy = _import_cupy()
        _check_gpu(self._cupy, index)
        self._device = self._cupy.cuda.Device(index)
        capability = str(self._device.compute_capability)
        self.arch = f"sm_{capability}" + ("a" if int(capability) >= FIRST_ARCHITECTURE_SPECIFIC else "")
        self.sm_count = int(self._device.attributes["MultiProcessorCount"])

    def upload(self, array: Array) -> CupyBuffer:
        """A new buffer that holds a copy of `array`, in row-major order.

        Raises:
            Refusal: the GPU has no room.
            DeviceError: the copy failed.
        """
        host = np.ascontiguousarray(array).reshape(array.shape)
        buffer = self.allocate(host.shape, host.dtype)
        if buffer.nbytes:
            with self.current("upload"):
                buffer.memory.copy_from_host(host.ctypes.data, buffer.nbytes)
        return buffer

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> CupyBuffer:
        """A new buffer with undefined contents, at a multiple of at least 256 bytes.

        Raises:
            Refusal: the GPU has no room.
            DeviceError: the allocation failed otherwise.
        """
        nbytes = prod(shape) * np.dtype(dtype).itemsize
        with self.current("allocation"):
            try:
                memory = self._cupy.cuda.alloc(nbytes) if nbytes else None
            except self._cupy.cuda.memory.OutOfMemoryError as error:
                free_bytes, total_bytes = self._cupy.cuda.runtime.memGetInfo()
                raise Refusal(
                    f"{nbytes} bytes do not fit: {free_bytes} of the GPU's {total_bytes} bytes are free",
                    hint="free buffers first, or choose a smaller case",
                ) from error
        return CupyBuffer(self, memory, tuple(shape), np.dtype(dtype))

    def free(self, buffer: CupyBuffer) -> None:
        """Give a buffer back to CuPy's pool; its address is 0 from then on."""
        buffer.memory = None

    def owns(self, buffer: Any) -> bool:
        """Whether `buffer` was allocated by this device."""
        return isinstance(buffer, CupyBuffer) and buffer.device is self

    def load(self, module: CompiledModule) -> Mapping[str, CupyFunction]:
        """The kernels of the module's cubin.

        Raises:
            DeviceError: the driver rejects the cubin.
        """
        with self.current(f"loading of {module.name}"):
            loaded = self._cupy.cuda.function.Module()
            loaded.load(module.cubin)
            return {name: CupyFunction(name, loaded.get_function(name), self) for name in module.entries}

    def tensor_map(self, buffer: Addressed, **arguments: Unpack[TensorMapArguments]) -> np.void:
        """See `tileproof.kernels.device.Device`; the driver's encoder makes and refuses it.

        Raises:
            Refusal: the driver does not take these arguments.
        """
        with self.current("tensor map"):
            return driver_tensor_map.encode(TensorMapRequest.of(buffer.address, arguments))

    def synchronize(self) -> None:
        """Wait for all work of this GPU."""
        self._device.synchronize()

    def allow_shared_bytes(self, function: Any, shared_bytes: int) -> None:
        """Let a kernel use more dynamic shared memory than the default limit."""
        driver = self._cupy.cuda.driver
        attribute = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        driver.funcSetAttribute(function.ptr, attribute, shared_bytes)

    @contextmanager
    def current(self, doing: str) -> Iterator[None]:
        """Make this GPU CUDA's current one, and turn CUDA's errors into DeviceError."""
        with self._device, _errors(doing):
            yield


def _value(kernel: str, position: int, argument: object) -> np.generic:
    """The numpy scalar that CuPy passes bit for bit: a buffer's address, or the scalar itself."""
    if isinstance(argument, CupyBuffer):
        return np.uint64(argument.address)
    if isinstance(argument, np.generic):
        return argument
    raise Refusal(
        f"argument {position} of {kernel} is {argument!r} of type {type(argument).__name__}, whose width is unknown",
        hint="pass a buffer or a numpy scalar of the type that the kernel declares, for example np.int32",
    )


def _import_cupy() -> ModuleType:
    try:
        import cupy
        import cupy.cuda.function
    except ImportError as error:
        raise Refusal(
            f"CuPy cannot be imported: {error}", hint='install "tileproof[gpu]", or use the target sim'
        ) from error
    module: ModuleType = cupy
    return module


def _check_gpu(cupy: ModuleType, index: int) -> None:
    runtime = cupy.cuda.runtime
    driver_cuda = runtime.driverGetVersion()
    if driver_cuda < MIN_DRIVER_CUDA:
        found = f"supports CUDA {_release(driver_cuda)}" if driver_cuda else "is missing"
        raise Refusal(
            f"the NVIDIA driver {found}; the least is CUDA {_release(MIN_DRIVER_CUDA)}",
            hint="install a newer driver, or use the target sim",
        )
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise Refusal(f"no GPU can be used: {error}", hint="use the target sim") from error
    if index >= count:
        raise Refusal(f"GPU {index} is asked for, and there are {count}", hint="GPUs are numbered from 0")


def _release(version: int) -> str:
    """CUDA's integer version as people write it: 13000 is 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


@contextmanager
def _errors(doing: str) -> Iterator[None]:
    """Turn CuPy's CUDA errors, whose text begins with CUDA's name of the error, into DeviceError."""
    import cupy

    try:
        yield
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        name, _, words = str(error).partition(":")
        raise DeviceError(name.strip(), f"{doing} failed: {words.strip() or 'CUDA says no more'}") from error
