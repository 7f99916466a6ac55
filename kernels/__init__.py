"""The real kernels: CUDA source, launchers with argument checks, the `Device` protocol and the CuPy device."""
