"""What follows the accumulator: array form, SwiGLU, output splits."""
