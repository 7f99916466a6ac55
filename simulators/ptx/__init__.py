"""The CPU device: executes compiled PTX and checks every access."""
