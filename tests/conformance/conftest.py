"""The stand-in package as an installed one would be: importable by its own name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
