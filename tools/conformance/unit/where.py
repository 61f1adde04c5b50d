"""Where the scripts are that tests import: they lie in folders, not in a package."""
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2]


def scripts():
    """Lets tests import what lies in tools/ and in folders of tools/conformance."""
    sys.path[:0] = [str(TOOLS), *(str(TOOLS / "conformance" / folder) for folder in ("lib", "foreign"))]
