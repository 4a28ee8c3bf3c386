"""Keys one after the other: each is taken when the one before it has done what it does."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from textual.app import App
from textual.dom import DOMNode
from textual.events import Key
from textual.message_pump import MessagePump
from textual.timer import Timer

LONGEST: Final = 1.0
"""Seconds after which a key is taken though nobody has said that the one before it is done: what
was to say it may have gone from the screen."""


class KeyQueue:
    """Textual hands a key to what has the focus when it comes in, though a key before it may be
    about to open a dialog that it is meant for: in one packet, those of a slow line or a paste,
    all but the first would go past it."""

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._waiting: deque[Key] = deque()
        self._next: Key | None = None
        """The first that waited, on its way back to the app: none that comes in passes it."""
        self._number = 0
        """Of the key that is on its way, or was last."""
        self._is_free = True
        self._timer: Timer | None = None

    def must_wait(self, event: Key) -> bool:
        """Whether it is kept for later, since another is on its way. It is posted anew then."""
        if self._is_free or event is self._next:
            self._next = None
            return False
        self._waiting.append(event)
        return True

    def follow(self, nodes: Sequence[DOMNode]) -> None:
        """A key was handed to the first of these, from which it goes up to the app, the last."""
        self._is_free = False
        self._number += 1
        self._timer = self._app.set_timer(LONGEST, partial(self._done, self._number))
        self._pass(self._number, nodes)

    def _pass(self, number: int, nodes: Sequence[MessagePump]) -> None:
        """Behind the key through the same queues."""
        for place, node in enumerate(nodes):
            if node.call_later(self._pass, number, nodes[place + 1 :]):
                return
        # a screen that the key has opened takes keys once it is there, and what has the focus on
        # it is said to the app
        screen = self._app.screen
        if not screen.call_later(self._app.call_later, self._done, number):
            self._done(number)

    def _done(self, number: int) -> None:
        if number != self._number:
            return
        if self._timer is not None:
            self._timer.stop()
        self._number += 1
        self._is_free = not self._waiting
        if self._waiting:
            self._next = self._waiting.popleft()
            self._app.post_message(self._next)
