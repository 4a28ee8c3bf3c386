"""Labels on their way into the store: given at once, stored beside the screen, together where
several came meanwhile."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.errors import CrosswindError, InputError
from engine.pipeline.label_requests import NumberedLabel

if TYPE_CHECKING:
    from tui.state.labelling import SampleSource


_writing: list[threading.Thread] = []


def write_beside(work: Callable[[], None]) -> None:
    """Write files on a thread of its own. The store has what is in them: where this cannot be done
    now, the next mirror does it."""

    def write() -> None:
        with contextlib.suppress(CrosswindError):
            work()

    thread = threading.Thread(target=write, name="files")
    _writing.append(thread)
    thread.start()


def wait_for_files() -> None:
    """Before the process ends: what writes files could not go on then."""
    while _writing:
        _writing.pop().join()


class LabelQueue:
    """Any thread may use it."""

    def __init__(self, sample: SampleSource) -> None:
        self._sample = sample
        self._waiting: list[NumberedLabel] = []
        self._guard = threading.Lock()
        """Of `_waiting`, held for moments."""
        self._storing = threading.Lock()
        self._stored = False

    def put(self, label: NumberedLabel) -> None:
        """`flush` stores it."""
        with self._guard:
            self._waiting.append(label)

    @property
    def waiting(self) -> int:
        """How many are not stored yet."""
        with self._guard:
            return len(self._waiting)

    def flush(self) -> list[tuple[int, str]]:
        """Store what waits, in its order; numbers that cannot be stored any more, and why. Blocks
        until that is done. Raises `CrosswindError` where nothing can be stored now: then it
        waits on."""
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
        """No more comes: the files are written beside whatever is done now; `wait_for_files`."""
        if self._stored:
            write_beside(self._sample.write_files)

    def _store(self, labels: Sequence[NumberedLabel]) -> list[tuple[int, str]]:
        if not labels:
            return []
        try:
            self._sample.store(labels)
            self._stored = True
        except InputError as error:
            if len(labels) == 1:
                return [(labels[0].number, str(error))]
            return [refused for one in labels for refused in self._store([one])]
        return []
