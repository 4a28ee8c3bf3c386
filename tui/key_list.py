"""Every class of the app that has keys of its own."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from textual.dom import DOMNode

import tui


def bound_classes() -> Iterator[type[DOMNode]]:
    """Every class of the app whose own keys stand in its source."""
    for module in pkgutil.walk_packages(tui.__path__, "tui."):
        if module.name.endswith("__main__"):
            continue
        for kind in vars(importlib.import_module(module.name)).values():
            if (
                isinstance(kind, type)
                and issubclass(kind, DOMNode)
                and kind.__module__ == module.name
                and kind.__dict__.get("BINDINGS")
            ):
                yield kind
