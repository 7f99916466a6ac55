"""CUDA C++ templates of foreign headers to PTX, by the pinned NVRTC.

The text beside this file only instantiates a template, and adds a second kernel, `describe`, that runs the library's
own host code, which computes the kernel's parameters, on the CPU device: NVRTC takes host code for device code when it
is asked to. So no host compiler and no driver is needed, and the parameters are the library's.
"""

import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import packages
from cuda.bindings import nvrtc

from tileproof.kernels.compile import cuda_include_directories

_OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "--generate-line-info", "--disable-warnings")

_OF_THE_HOST = "struct KernelHardwareInfo {"
_PUT_BACK = """#if defined(__CUDACC_RTC__)
  static int query_device_multiprocessor_count(int = 0) { return 0; }
#endif"""


@cache
def cutlass_headers() -> Path:
    """The headers of CUTLASS, unpacked once a process.

    For NVRTC they leave out a function of the host that the persistent kernels' host code names; it is put back, and
    answers 0. The launch says how many multiprocessors there are, so that nobody asks.
    """
    folder = "cutlass_library/source/include"
    headers = packages.unpack("nvidia-cutlass", folder, Path(tempfile.mkdtemp(prefix="foreign")))
    file = headers / "cutlass" / "kernel_hardware_info.h"
    text = file.read_text()
    assert text.count(_OF_THE_HOST) == 1
    file.write_text(text.replace(_OF_THE_HOST, f"{_OF_THE_HOST}\n{_PUT_BACK}"))
    return headers


def compile_cuda(file: str, virtual: str, defines: Sequence[str] = ()) -> str:
    """PTX of a source beside this file, for a virtual architecture such as "compute_90a", with macros "NAME=VALUE"."""
    source = (Path(__file__).parent / file).read_text()
    includes = [cutlass_headers(), *cuda_include_directories()]
    options = [*_OPTIONS, f"--gpu-architecture={virtual}", "--define-macro=NDEBUG"]
    options += [f"--define-macro={define}" for define in defines] + [f"--include-path={path}" for path in includes]
    program = _checked(nvrtc.nvrtcCreateProgram(source.encode(), file.encode(), 0, [], []))
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytearray(_checked(nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(f"{file} does not compile:\n{log.decode()[:4000]}")
    text = bytearray(_checked(nvrtc.nvrtcGetPTXSize(program)))
    nvrtc.nvrtcGetPTX(program, text)
    return text.rstrip(b"\0").decode()


def _checked(answer: tuple[Any, Any]) -> Any:
    status, value = answer
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    return value
