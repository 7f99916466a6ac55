"""Protocols of kernels as models: right ones, and what is wrong with faulty ones."""
