"""Checks that the packages for workers are installed; they are an optional extra."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from engine.errors import InputError, Problem

_PACKAGES: Final = ("distributed", "cryptography")


def require_extra() -> None:
    """Raise `InputError` if a package is missing. Imports none of them."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise InputError(
            Problem(
                f"workers need {' and '.join(missing)}, which {'are' if missing[1:] else 'is'} "
                "not installed",
                hint="pip install 'crosswind[cluster]', or pipx inject crosswind distributed "
                "cryptography",
            )
        )
