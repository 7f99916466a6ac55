"""The fast engine: runs of common steps in machine code, on the state of the reference engine."""
