"""Where bytes lie: packed layouts, XOR tiles, TMA boxes, LDS tiles, and proofs that a relation is a bijection."""
