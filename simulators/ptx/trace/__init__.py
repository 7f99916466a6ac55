"""Where one element of a result came from: a recorded run, and the slice of it that made the element."""
