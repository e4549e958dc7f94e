"""Makes ``write``, which also writes the files, importable by the tests that repeat what it did."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
