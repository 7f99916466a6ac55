"""Probes: checks of properties that need more than a case on its own, such as the same row in batches of every size.

A probe takes a case and, for its own proof, an edited kernel; it answers with what is wrong, in words, nothing where
the property holds. Probes run on the CPU device, those of graphs and repeats on a GPU as well.
"""
