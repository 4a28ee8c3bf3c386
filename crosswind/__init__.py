"""`crosswind.open(workspace)` reads what a workspace holds, for notebooks and scripts."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from os import PathLike

    from crosswind.study import Study


__all__ = ["open"]


def open(place: str | PathLike[str] = ".") -> Study:  # noqa: A001  (`crosswind.open`, as `gzip.open`)
    """Open a workspace to read: one with a store, or a folder of files that `crosswind import`
    takes, which are read into a temporary store. Nothing is written to the place.

    Raises `engine.errors.CrosswindError` for what cannot be read, and `ImportError` where another
    package stands in the place of one of ours.
    """
    fault = foreign_package()
    if fault is not None:
        raise ImportError(fault)
    from crosswind.study import open_study  # whoever imports the package alone pays for nothing

    return open_study(place)


_HOME: Final = Path(__file__).parents[1]


def foreign_package() -> str | None:
    """Say which package Python would import in the place of ours, and what to do; None for none."""
    for package in ("engine", "tui"):
        spec = find_spec(package)
        found = None if spec is None or spec.origin is None else Path(spec.origin)
        if found is not None and not found.is_relative_to(_HOME / package):
            return (
                f"crosswind: {found} is in the place of Crosswind's own package `{package}`: "
                f"unset PYTHONPATH, or take {_place(found, package)} out of it"
            )
    return None


def _place(found: Path, package: str) -> Path:
    """The folder in which Python found it: it is a file, or a folder with an `__init__.py`."""
    return found.parents[1] if found.parent.name == package else found.parent
