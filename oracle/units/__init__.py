"""Matrix units: their parameters with evidence, the readable definitions and the compiled loops."""
