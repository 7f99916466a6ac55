"""Fingerprint: from outputs alone, how a black-box product adds up. Read `accumulator`, then `fingerprint`."""
