"""What a process that lives for hours gives back."""

from __future__ import annotations

import gc
import weakref

from engine.memory import free_unused


class Node:
    """Refers to itself, so that only a collection finds it."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_that_no_collection_came_by_for_are_freed() -> None:
    gc.disable()
    try:
        seen = weakref.ref(Node())
        assert seen() is not None
        free_unused()
        assert seen() is None
    finally:
        gc.enable()
