"""Twins of oracle rules in plain integer CUDA, for matrices too large for numpy: no matrix unit, nothing tuned."""
