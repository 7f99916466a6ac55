"""Mutation of compiled kernels: thousands of small defects that nobody chose, each of which a case must find.

An operator changes one instruction of a parsed PTX entry; the changed entry runs on the CPU device under the very
launcher, contract and cases of the kernel; the first case with a finding kills the mutant. See `docs/mutation.md`.
"""
