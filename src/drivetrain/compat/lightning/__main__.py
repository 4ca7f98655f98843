"""``python -m drivetrain.compat.lightning script.py [args]``: run a script that imports Lightning."""

import sys

from drivetrain.compat.running import main

sys.exit(main(sys.argv[1:]))
