"""The program of the process that runs a workspace's function. Uses only Python's standard library:
the workspace's modules come before ours, whatever they are called.

Requests come as lines of JSON, and so do replies, over descriptors that the function does not have:
what it prints goes elsewhere. When the requests end, this process ends, whatever the function is
doing.
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
"""Characters per line; longer text is split."""
LONGEST_REASON = 2_000
END_OF_PRINTED = b"\x1e\x1ecrosswind\x1e\x1e"
"""As in `line_process.py`, which cannot be imported here."""
_DIE_WITH_PARENT = 1
"""Linux's PR_SET_PDEATHSIG."""

Say = Callable[[dict[str, Any]], None]


def main(workspace: str, call: str) -> None:
    requests, say = private_pipes()
    die_with_parent()
    waiting: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    # a thread, which notices the end of the engine while the function works
    threading.Thread(target=_read, args=(requests, waiting), daemon=True).start()
    sys.path.insert(0, workspace)
    try:
        function = _load_function(call)
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


def private_pipes() -> tuple[int, Say]:
    """Return where requests come from, and what sends replies. What a function reads from standard
    input and prints to standard output goes nowhere from now on."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    # descriptors 0 and 1, as libraries in C bypass sys.stdout
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    lock = threading.Lock()

    def say(message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        with lock:
            while line:
                line = line[os.write(replies, line) :]

    return requests, say


def _end_printed() -> None:
    """Mark on standard error that what follows belongs to another call."""
    try:
        sys.stderr.flush()
        os.write(2, END_OF_PRINTED)
    except (OSError, ValueError, AttributeError):
        pass  # the function has closed or replaced it


def die_with_parent() -> None:
    """End with the parent, even if a function never lets the thread run that would notice it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def _read(requests: int, waiting: queue.SimpleQueue[dict[str, Any]]) -> None:
    with open(requests, "rb") as lines:
        for line in lines:
            waiting.put(json.loads(line))
    # at once: an orderly exit would wait for a function that is working
    os._exit(0)


def _load_function(call: str) -> Callable[[list[dict[str, str]], str], object]:
    module, _, name = call.partition(":")
    function: Any = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(function, part):
            raise AttributeError(f"{module} has no {name}")
        function = getattr(function, part)
    if not callable(function):
        raise TypeError(f"{call} is {_type_name(function)}, and cannot be called")
    try:
        # checked before the first call: with other parameters each of thousands of calls would fail
        inspect.signature(function).bind([], "")
    except TypeError:
        raise TypeError(f"{call} does not take (messages, session)") from None
    except ValueError:
        pass  # a builtin without a signature
    return function  # type: ignore[no-any-return]  # (whatever a module has under a name)


def _answer(returned: object, loop: asyncio.AbstractEventLoop, say: Say) -> None:
    """Send everything that a function returned: text, or pieces of text, now or awaited."""
    if inspect.isawaitable(returned):
        returned = loop.run_until_complete(_run_awaitable(returned))
    if isinstance(returned, str):
        _speak(returned, say)
    elif hasattr(returned, "__aiter__"):
        loop.run_until_complete(_send_pieces(returned, say))
    elif hasattr(returned, "__next__"):
        for piece in returned:  # type: ignore[attr-defined]  # (an iterator, as its next says)
            _speak(piece, say)
    else:
        raise TypeError(f"it returned {_type_name(returned)}, expected text or an iterator of text")


async def _run_awaitable(returned: Any) -> object:
    return await returned


async def _send_pieces(returned: Any, say: Say) -> None:
    async for piece in returned:
        _speak(piece, say)


def _speak(piece: object, say: Say) -> None:
    if not isinstance(piece, str):
        raise TypeError(f"a piece of its reply is {_type_name(piece)}, expected text")
    for start in range(0, len(piece), LONGEST_PIECE):
        say({"text": piece[start : start + LONGEST_PIECE]})


def _type_name(value: object) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


def _reason(error: BaseException, workspace: str) -> str:
    """Describe an exception, with the last line of the workspace that led to it."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  (a broken exception is still one)
        message = ""
    words = type(error).__name__ + (f": {message}" if message else "")
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
