"""What nvcc finds in the host's headers and NVRTC lacks, as far as device code uses it.

nvcc includes <cuda_runtime.h>, and with it <math.h> and <stdint.h>, before a file's first line, and takes the standard
library from the host's compiler. NVRTC has neither. So a file that nvcc compiles gets here, before its first line, the
integer types and INFINITY and NAN; and the headers below, which are those of libcu++ (in the CUDA headers), or hold
nothing where NVRTC knows the functions by itself. A header that is not below is not found, and the message says so.
"""

from collections.abc import Mapping

FIRST = "tileproof_before_line_1.h"
"""Included before the first line."""

_LIBCUXX = {
    "cstdint": "stdint.h",
    "cstddef": "stddef.h",
    "climits": "limits.h",
    "limits": "",
    "type_traits": "",
    "utility": "",
    "array": "",
    "tuple": "",
    "functional": "",
    "initializer_list": "",
    "bit": "",
}
"""Standard headers that libcu++ has, and their names in C."""

_EMPTY = ("cstdio", "stdio.h", "cstdlib", "stdlib.h", "cstring", "string.h")

_MATH = """#pragma once
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef HUGE_VALF
#define HUGE_VALF INFINITY
#endif
"""
_FLOAT = """#pragma once
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MANT_DIG 53
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
"""
_ASSERT = "#undef assert\n#define assert(condition) ((condition) ? (void)0 : __trap())\n"


def host_headers() -> Mapping[str, str]:
    """Text by name."""
    pairs = (("cmath", "math.h", _MATH), ("cfloat", "float.h", _FLOAT), ("cassert", "assert.h", _ASSERT))
    texts = {name: text for first, second, text in pairs for name in (first, second)}
    texts |= dict.fromkeys(_EMPTY, "#pragma once\n")
    texts["algorithm"] = _from_libcuxx(*(f"__algorithm/{name}.h" for name in ("min", "max", "clamp")))
    for name, in_c in _LIBCUXX.items():
        texts[name] = _from_libcuxx(name)
        if in_c:
            texts[in_c] = texts[name]
    texts[FIRST] = texts["cstdint"] + _MATH.removeprefix("#pragma once\n")
    return texts


def _from_libcuxx(*names: str) -> str:
    includes = "".join(f"#include <cuda/std/{name}>\n" for name in names)
    return f"#pragma once\n{includes}namespace std {{ using namespace ::cuda::std; }}\n"
