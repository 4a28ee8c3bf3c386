"""What we use of sqlite-utils, which only this module loads: few commands need it."""

from __future__ import annotations

import sys
from typing import Final

_UNUSED: Final = [name for name in ("numpy", "pandas") if name not in sys.modules]
"""Hidden from sqlite-utils, which would import them to accept values of their types. We have none,
and loading them takes four times as long (0.09 -> 0.38 s of CPU)."""
sys.modules.update(dict.fromkeys(_UNUSED))  # type: ignore[arg-type]  # None is "not installed"
try:
    from sqlite_utils import Database, Migrations
    from sqlite_utils.utils import Format, rows_from_file
finally:
    for _name in _UNUSED:
        del sys.modules[_name]

__all__ = ["Database", "Format", "Migrations", "rows_from_file"]
