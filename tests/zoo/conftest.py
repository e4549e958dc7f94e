"""Makes the package ``zoo`` importable: its parts are found by module and name, like those of a plugin."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

# They are installed by tests, not collected: some end the process when imported.
collect_ignore = ["plugins"]
