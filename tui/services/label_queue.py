"""A queue of labels to store: given at once, stored in the background, several together."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence

from engine.errors import CrosswindError, InputError
from engine.people import NumberedLabel

_writing: list[threading.Thread] = []


def write_beside(work: Callable[[], None]) -> None:
    """Write files on a separate thread. The store has their content: if writing fails now, the next
    mirror writes them."""

    def write() -> None:
        with contextlib.suppress(CrosswindError):
            work()

    thread = threading.Thread(target=write, name="files")
    _writing.append(thread)
    thread.start()


def wait_for_files() -> None:
    """Wait for the threads that write files, which the end of the process would stop."""
    while _writing:
        _writing.pop().join()


class LabelQueue:
    """A thread-safe queue of labels."""

    def __init__(
        self, store: Callable[[Sequence[NumberedLabel]], None], write_files: Callable[[], None]
    ) -> None:
        self._store_all, self._write_files = store, write_files
        self._waiting: list[NumberedLabel] = []
        self._guard = threading.Lock()
        """Guards `_waiting`; held only briefly."""
        self._storing = threading.Lock()
        self._stored = False

    def put(self, label: NumberedLabel) -> None:
        """Add a label, to be stored by `flush`."""
        with self._guard:
            self._waiting.append(label)

    @property
    def waiting(self) -> int:
        """The number of labels not stored yet."""
        with self._guard:
            return len(self._waiting)

    def flush(self) -> list[tuple[int, str]]:
        """Store the waiting labels in order; blocks. Returns the numbers that can no longer be
        stored, and why. Raises `CrosswindError` if nothing can be stored now; the labels keep
        waiting."""
        with self._storing:
            with self._guard:
                labels, self._waiting = self._waiting, []
            try:
                return self._store(labels)
            except CrosswindError:
                with self._guard:
                    self._waiting = [*labels, *self._waiting]
                raise

    def end(self) -> None:
        """Finish: write the files in the background; see `wait_for_files`."""
        if self._stored:
            write_beside(self._write_files)

    def _store(self, labels: Sequence[NumberedLabel]) -> list[tuple[int, str]]:
        if not labels:
            return []
        try:
            self._store_all(labels)
            self._stored = True
        except InputError as error:
            if len(labels) == 1:
                return [(labels[0].number, str(error))]
            return [refused for label in labels for refused in self._store([label])]
        return []
