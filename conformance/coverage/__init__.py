"""What the suite covers: properties by contract and target, and what nothing has ever reached."""
