"""Speed against named peers, measured side by side in one run: `python -m benchmarks [NAME ..]`."""
