"""Runs and searches on a Ray cluster: many machines take the very units of work that processes on one machine take.

A case is a unit of `check`, a round one of `fuzz`. A worker is a Ray actor that keeps its devices open from unit to
unit; with the GPU as a target each has one GPU to itself. A worker that is lost, with its machine or alone, takes no
unit with it: another one gets it. Ray is the extra `cluster`.
"""
