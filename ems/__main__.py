"""`python -m ems`: the same as the command `ems`."""

import sys

from .cli import main

sys.exit(main())
