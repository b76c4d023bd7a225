"""`python -m foldwise.cli` is `foldwise`."""

import sys

from .commands import main

sys.exit(main())
