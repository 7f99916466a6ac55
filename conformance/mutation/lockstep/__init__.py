"""Proof by a solver that a mutant and its kernel do the same, step beside step, for every input of a legal launch."""
