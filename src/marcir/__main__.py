"""`python -m marcir` is the command `marcir`."""

import sys

from marcir.cli import main

sys.exit(main())
