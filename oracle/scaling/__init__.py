"""Scale rules and the quantisers that use them: blocks, MX, INT8, AstrAI."""
