"""Work beside a screen's loop, of which the newest may take the place of what was begun before."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from textual.dom import DOMNode
from textual.worker import WorkType

Work = Callable[[], Coroutine[None, None, None]]


def begin(node: DOMNode, work: Work, group: str) -> None:
    """Beside whatever else of its group is at work."""
    _begin(node, work, group, exclusive=False)


def begin_instead(node: DOMNode, work: Work, group: str) -> None:
    """Nobody waits any more for what else of its group is at work."""
    _begin(node, work, group, exclusive=True)


def _begin(node: DOMNode, work: WorkType[None], group: str, *, exclusive: bool) -> None:
    # not the coroutine itself: it would be left lying where the next one comes at once
    node.run_worker(work, group=group, exclusive=exclusive)
