"""The delayed-scaling ring: stages, state, one fold, the published scale."""
