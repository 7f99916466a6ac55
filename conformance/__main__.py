"""`python -m tileproof.conformance`, and the console script: the command line, with its imports under its own care.

The imports take half a second. Ctrl-C in that time must end as it does later: in one line and exit code 2.
"""

import sys


def run() -> int:
    """Import and run the command line."""
    try:
        from tileproof.conformance.cli import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        return 2


if __name__ == "__main__":
    sys.exit(run())
