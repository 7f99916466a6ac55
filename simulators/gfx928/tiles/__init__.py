"""The INT8 tile kernels as wave programs, and their launch."""
