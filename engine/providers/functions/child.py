"""The process that a function of a workspace runs in. Run as a file, and stands on Python's own
library alone: whatever the workspace calls its modules, they are found before ours.

Requests come as lines of JSON, and so do replies, over descriptors that the function does not
have: what it prints goes elsewhere. The end of the requests is the end of this process, whatever
the function is doing.
"""

from __future__ import annotations

import asyncio
import ctypes
import importlib
import inspect
import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

LONGEST_PIECE = 64 * 1024
"""Characters of a line. Longer text is said in several."""
LONGEST_REASON = 2_000
END_OF_PRINTED = b"\x1e\x1ecrosswind\x1e\x1e"
"""As in `model.py`, which cannot be imported from here."""
_DIE_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG."""

Say = Callable[[dict[str, Any]], None]


def main(workspace: str, call: str) -> None:
    requests, say = _private_pipes()
    _die_with_parent()
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    # a thread of its own: while the function works somebody must see that the engine is gone
    threading.Thread(target=_read, args=(requests, waiting), daemon=True).start()
    sys.path.insert(0, workspace)
    try:
        function = _found(call)
    except BaseException as error:  # noqa: BLE001  (a module may raise anything, and may exit)
        say({"unusable": _reason(error, workspace)})
        return
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    say({"ready": True})
    while True:
        asked = waiting.get()
        try:
            _answer(function(asked["messages"], asked["session"]), loop, say)
        except BaseException as error:  # noqa: BLE001  (the function is anybody's)
            _end_printed()
            say({"failed": _reason(error, workspace)})
        else:
            _end_printed()
            say({"end": True})


def _private_pipes() -> tuple[int, Say]:
    """Where requests come from, and what says replies. What a function reads and prints is nobody's
    from now on."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    # 0 and 1 by number, as a library in C prints to these, past sys.stdout
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    lock = threading.Lock()

    def say(said: dict[str, Any]) -> None:
        line = json.dumps(said).encode() + b"\n"
        with lock:
            while line:
                line = line[os.write(replies, line) :]

    return requests, say


def _end_printed() -> None:
    """Say on standard error that what follows belongs to another call."""
    try:
        sys.stderr.flush()
        os.write(2, END_OF_PRINTED)
    except (OSError, ValueError, AttributeError):
        pass  # the function has closed it, or put something else there


def _die_with_parent() -> None:
    """Also where a function never lets another thread run, which would see the end of requests."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _read(requests: int, waiting: queue.SimpleQueue[dict[str, Any]]) -> None:
    with open(requests, "rb") as lines:
        for line in lines:
            waiting.put(json.loads(line))
    # at once: a function that is at work would hold up an orderly end for ever
    os._exit(0)


def _found(call: str) -> Callable[[list[dict[str, str]], str], object]:
    module, _, name = call.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(found, part):
            raise AttributeError(f"{module} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{call} is {_kind(found)}, and cannot be called")
    try:
        # asked before the first call: a function that takes something else would fail each of
        # thousands
        inspect.signature(found).bind([], "")
    except TypeError:
        raise TypeError(f"{call} does not take (messages, session)") from None
    except ValueError:
        pass  # something built in, which does not tell
    return found  # type: ignore[no-any-return]  # (whatever a module has under a name)


def _answer(returned: object, loop: asyncio.AbstractEventLoop, say: Say) -> None:
    """Say all of what a function returned: text, or text piece by piece, now or awaited."""
    if inspect.isawaitable(returned):
        returned = loop.run_until_complete(_awaited(returned))
    if isinstance(returned, str):
        _speak(returned, say)
    elif hasattr(returned, "__aiter__"):
        loop.run_until_complete(_each(returned, say))
    elif hasattr(returned, "__next__"):
        for piece in returned:  # type: ignore[attr-defined]  # (an iterator, as its next says)
            _speak(piece, say)
    else:
        raise TypeError(f"it returned {_kind(returned)}, expected text or an iterator of text")


async def _awaited(returned: Any) -> object:
    return await returned


async def _each(returned: Any, say: Say) -> None:
    async for piece in returned:
        _speak(piece, say)


def _speak(piece: object, say: Say) -> None:
    if not isinstance(piece, str):
        raise TypeError(f"a piece of its reply is {_kind(piece)}, expected text")
    for start in range(0, len(piece), LONGEST_PIECE):
        say({"text": piece[start : start + LONGEST_PIECE]})


def _kind(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def _reason(error: BaseException, workspace: str) -> str:
    """What was raised, and the last line of the workspace's own that led to it."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  (a broken exception is still one)
        said = ""
    words = type(error).__name__ + (f": {said}" if said else "")
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(workspace)
    ]
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    return words[:LONGEST_REASON] + place


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)
