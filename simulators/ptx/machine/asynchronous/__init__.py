"""Asynchronous operations: mbarriers, copies in flight, and the waits for them."""
