"""Finds in a transcript what a person searches for: words, or behind a slash a regular expression.

A regular expression can take for ever, and while it does Python lets nothing else be done. It is
therefore tried in a process of its own, which is ended when its time is over.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from typing import Final

DEADLINE: Final = 2.0
"""Seconds, of which the start of the process takes a few hundredths."""
MOST_FINDS: Final = 2000
"""Places that are marked in one message."""
MARK: Final = "/"
"""What a regular expression begins with."""

Spans = list[tuple[int, int]]

_CHILD: Final = """
import json, re, sys
asked = json.load(sys.stdin)
try:
    pattern = re.compile(asked["pattern"], re.IGNORECASE | re.MULTILINE)
except (re.error, OverflowError, RecursionError) as error:
    json.dump({"fault": str(error)}, sys.stdout)
else:
    found = []
    for text in asked["texts"]:
        spans = []
        for match in pattern.finditer(text):
            if match.end() > match.start():
                spans.append(match.span())
            if len(spans) >= asked["most"]:
                break
        found.append(spans)
    json.dump({"found": found}, sys.stdout)
"""


class PatternFault(Exception):  # noqa: N818  (a fault of what was typed, in words for who typed it)
    """Why a pattern cannot be searched for."""


async def matches(texts: Sequence[str], typed: str, deadline: float = DEADLINE) -> list[Spans]:
    """Where in each text it stands. Raises `PatternFault`."""
    if not typed.startswith(MARK):
        return [_words(text, typed) for text in texts]
    pattern = typed.removeprefix(MARK).removesuffix(MARK)
    return await _pattern(texts, pattern, deadline) if pattern else [[] for _ in texts]


def _words(text: str, typed: str) -> Spans:
    """Whatever the case and the white space between words. Such a pattern is always quick."""
    words = typed.split()
    if not words:
        return []
    found = re.finditer(r"\s+".join(map(re.escape, words)), text, re.IGNORECASE)
    return [match.span() for match, _ in zip(found, range(MOST_FINDS), strict=False)]


async def _pattern(texts: Sequence[str], pattern: str, deadline: float) -> list[Spans]:
    asked = json.dumps({"pattern": pattern, "texts": list(texts), "most": MOST_FINDS})
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-c", _CHILD),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(deadline):
            out, _ = await child.communicate(asked.encode())
    except TimeoutError:
        raise PatternFault("this pattern takes too long here; a plainer one may not") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    try:
        answer = json.loads(out)
    except ValueError:
        raise PatternFault("this pattern could not be tried") from None
    if "fault" in answer:
        raise PatternFault(f"no regular expression: {answer['fault']}")
    return [[(start, end) for start, end in spans] for spans in answer["found"]]
