"""What hardware has confirmed, and of which code: recordings keyed by a kernel's PTX and the device that ran it."""
