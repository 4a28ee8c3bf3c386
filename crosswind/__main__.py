"""The command `crosswind`, also `python -m crosswind`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

_HOME: Final = Path(__file__).parents[1]


def main() -> None:
    """Exits the process with the command's exit code."""
    for package in ("engine", "tui"):
        spec = find_spec(package)
        found = None if spec is None or spec.origin is None else Path(spec.origin)
        if found is not None and not found.is_relative_to(_HOME / package):
            sys.stderr.write(
                f"crosswind: {found} is in the place of Crosswind's own package `{package}`: "
                f"unset PYTHONPATH, or take {_place(found, package)} out of it\n"
            )
            sys.exit(2)
    from tui.__main__ import main as run_command  # noqa: TID251  (only now is it known to be ours)

    run_command()


def _place(found: Path, package: str) -> Path:
    """The folder in which Python found it: it is a file, or a folder with an `__init__.py`."""
    return found.parents[1] if found.parent.name == package else found.parent


if __name__ == "__main__":
    main()
