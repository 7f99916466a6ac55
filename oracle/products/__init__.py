"""Products of whole matrices: exact, in a declared order, and within a proven bound."""
