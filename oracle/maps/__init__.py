"""Lane and register of every element: fragments, ldmatrix, wgmma descriptors and tiles."""
