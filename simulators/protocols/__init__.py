"""Every interleaving of the small concurrent machines inside kernels, by explicit search."""
