"""`crosswind.open(workspace)` reads what a workspace holds, for notebooks and scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crosswind.packages import foreign_package

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
