"""Whether what workers need is installed: an extra, for most people need no second process."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from engine.errors import InputError, Problem

_PACKAGES: Final = ("distributed", "cryptography")


def require_extra() -> None:
    """Raises `InputError`. Imports nothing."""
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
