"""`python -m tileproof.conformance` is the command line."""

import sys

from tileproof.conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
