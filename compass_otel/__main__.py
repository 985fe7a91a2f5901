"""`python -m compass_otel` is the command `compass-otel`."""

import sys

from compass_otel.cli import main

if __name__ == "__main__":
    sys.exit(main())
