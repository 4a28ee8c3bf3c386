"""A table that is printed, or kept as a page of the manual, with what in it misses its bar."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path


def missed(faults: Sequence[str]) -> str:
    return f"Bars missed by more than chance allows: {len(faults)}."


def keep(page: Path, lines: Sequence[str], faults: Sequence[str], *, write: bool) -> int:
    """1 where a bar is missed."""
    text = "\n".join([*lines, ""])
    if write:
        page.write_text(text)
    else:
        sys.stdout.write(text)
    for fault in faults:
        sys.stdout.write(fault + "\n")
    return int(bool(faults))
