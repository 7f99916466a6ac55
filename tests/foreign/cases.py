"""All foreign kernels."""

import cutlass_gemms
import quantisers
import triton_gemms

CASES = [*quantisers.CASES, *triton_gemms.CASES, *cutlass_gemms.CASES]
