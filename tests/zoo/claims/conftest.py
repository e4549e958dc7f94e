"""Makes the package ``falsehoods`` importable: its parts are imported by name, like those of a plugin."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
