"""Reads gfx9 assembly listings and proves or refutes the order of a pipelined stage."""
