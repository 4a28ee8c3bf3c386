"""JSON schemas of the files that people write, for editors; `tools/schemas.py` makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SCHEMAS: Final = Path(__file__).parent
FOLDER: Final = ".schemas"
"""Where a workspace holds a copy."""
CONFIG_MODELINE: Final = f"# yaml-language-server: $schema={FOLDER}/config.json\n"
"""What editors that know YAML look for, in the first lines of a file."""
BENCHMARK_MODELINE: Final = f"# yaml-language-server: $schema=../../{FOLDER}/benchmark.json\n"
